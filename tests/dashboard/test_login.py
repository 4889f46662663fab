"""Passwords: the right one gets in, and guessing takes hours."""

import math

import pytest

from apviz.dashboard import login
from apviz.dashboard.login import Tries


def hours_for(guesses: int) -> float:
    """Of one who sends the next guess when the last was answered."""
    tries, now = Tries(), 0.0
    for _ in range(guesses):
        now += tries.begin("1.2.3.4", now)
    return now / 3600


def test_a_few_mistakes_cost_nothing_and_ten_thousand_guesses_most_of_a_day():
    assert hours_for(5) == 0.0 and hours_for(8) < 10 / 3600
    assert 20 < hours_for(10_000) < 24


def test_guesses_at_once_wait_for_one_another_and_too_many_are_not_looked_at():
    tries = Tries()
    waits = [tries.begin("1.2.3.4", 0.0) for _ in range(1000)]
    assert waits[:10] == [0, 0, 0, 0, 0, 0.5, 1.5, 3.5, 7.5, 15.5]
    assert all(map(math.isinf, waits[12:])) and max(waits[:11]) < 3 * login.MOST_SECONDS


def test_others_do_not_wait_for_one_who_guesses():
    tries = Tries()
    for _ in range(100):
        tries.begin("1.2.3.4", 0.0)
    assert tries.begin("5.6.7.8", 0.0) == 0.0 < tries.begin("1.2.3.4", 0.0)


@pytest.mark.parametrize(
    ("later", "waits"), [(login.FORGOTTEN_SECONDS - 1, True), (login.FORGOTTEN_SECONDS + 1, False)]
)
def test_after_a_quarter_of_an_hour_tries_are_forgotten(later, waits):
    tries = Tries()
    for _ in range(100):
        tries.begin("1.2.3.4", 0.0)
    assert (tries.begin("1.2.3.4", later) > 0.0) is waits


def test_the_right_password_makes_up_for_wrong_ones():
    tries = Tries()
    for _ in range(100):
        tries.begin("1.2.3.4", 0.0)
    tries.right("1.2.3.4")
    assert tries.begin("1.2.3.4", 0.0) == 0.0


def test_guesses_from_many_addresses_take_no_more_than_so_much_memory():
    tries = Tries()
    for number in range(3 * login.ADDRESSES):
        tries.begin(str(number), float(number))
    assert len(tries._guessers) == login.ADDRESSES
