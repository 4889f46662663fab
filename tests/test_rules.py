import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from apviz.rules import RULES, Cyclic, GaussSouthwell, Random, Shuffled, rule_named


def squared_norms(m, columns, seed):
    return torch.tensor(np.random.default_rng(seed).gamma(0.5, size=(m, columns)))


@settings(deadline=None, max_examples=40)
@given(m=st.integers(1, 30), columns=st.integers(1, 20), number=st.integers(0, 100), seed=st.integers(0, 999))
def test_gauss_southwell_picks_the_largest_frobenius_norm(m, columns, number, seed):
    norms = squared_norms(m, columns, seed)
    select = GaussSouthwell().begin([5] * (m - 1) + [2])
    assert select(number, norms) == np.argmax(norms.numpy().sum(1))


@settings(deadline=None, max_examples=40)
@given(m=st.integers(2, 12), columns=st.integers(1, 8), short=st.booleans(), seed=st.integers(0, 999))
def test_the_authors_schedule_picks_full_blocks_by_mean_norm_and_the_short_one_at_each_epochs_end(
    m, columns, short, seed
):
    sizes = [5] * (m - 1) + [2 if short else 5]
    select = GaussSouthwell(short_block="end-of-epoch").begin(sizes)
    for number in range(3 * m):
        norms = squared_norms(m, columns, seed + number)
        candidates = norms[:-1] if short else norms
        expected = np.argmax(np.sqrt(candidates.numpy()).mean(1))
        if short and number % m == m - 1:
            expected = m - 1
        assert select(number, norms) == expected


def test_the_frobenius_norm_and_the_mean_norm_disagree_if_one_column_dominates():
    # norms (3, 0) and (2, 2): Frobenius 3 > √8, mean 1.5 < 2
    norms = torch.tensor([[9.0, 0.0], [4.0, 4.0]])
    assert GaussSouthwell().begin([4, 4])(0, norms) == 0
    assert GaussSouthwell(short_block="end-of-epoch").begin([4, 4])(0, norms) == 1


def test_cyclic_takes_the_blocks_in_turn():
    select = Cyclic().begin([3] * 4)
    assert [select(i, torch.zeros(4, 1)) for i in range(9)] == [0, 1, 2, 3, 0, 1, 2, 3, 0]


@pytest.mark.parametrize("kind", [Random, Shuffled])
def test_the_same_seed_gives_the_same_blocks_and_another_seed_gives_others(kind):
    def run(rule):
        select = rule.begin([3] * 20)
        return [select(i, torch.zeros(20, 1)) for i in range(60)]

    rule = kind(seed=5)
    assert run(rule) == run(rule) == run(kind(seed=5))
    assert run(rule) != run(kind(seed=6))


@pytest.mark.parametrize("kind", [Random, Shuffled])
def test_drawing_blocks_does_not_change_the_global_random_state(kind):
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    kind(seed=1).begin([3] * 5)(0, torch.zeros(5, 1))
    assert torch.equal(torch.rand(2), expected)


def test_random_draws_blocks_uniformly_and_independently():
    m, draws = 8, 4000
    select = Random(seed=0).begin([1] * m)
    chosen = np.array([select(i, torch.zeros(m, 1)) for i in range(draws)])
    assert stats.chisquare(np.bincount(chosen, minlength=m)).pvalue > 1e-3
    pairs = np.bincount(chosen[:-1] * m + chosen[1:], minlength=m * m)  # consecutive blocks are independent
    assert stats.chisquare(pairs).pvalue > 1e-3


@settings(deadline=None, max_examples=20)
@given(m=st.integers(1, 15), seed=st.integers(0, 999))
def test_shuffled_visits_every_block_once_an_epoch_in_new_orders(m, seed):
    select = Shuffled(seed=seed).begin([1] * m)
    epochs = [tuple(select(i, torch.zeros(m, 1)) for i in range(m)) for _ in range(6)]
    assert all(sorted(epoch) == list(range(m)) for epoch in epochs)
    assert m < 5 or len(set(epochs)) > 1


def test_two_solves_with_one_rule_do_not_share_state():
    rule, norms = Shuffled(seed=0), torch.zeros(6, 1)
    first = rule.begin([1] * 6)
    first(0, norms)
    second, fresh = rule.begin([1] * 6), Shuffled(seed=0).begin([1] * 6)
    assert [second(i, norms) for i in range(6)] == [fresh(i, norms) for i in range(6)]


def test_only_gauss_southwell_needs_the_norms():
    assert [name for name, rule in RULES.items() if rule.needs_norms] == ["gauss-southwell"]


def test_a_rule_may_be_given_by_name_or_as_an_object_and_an_unknown_name_raises():
    assert rule_named("shuffled") == Shuffled()
    mine = GaussSouthwell(short_block="end-of-epoch")
    assert rule_named(mine) is mine and mine.name != GaussSouthwell().name
    with pytest.raises(
        ValueError, match=r"rule must be one of gauss-southwell, cyclic, random, shuffled.*, got 'greedy'"
    ):
        rule_named("greedy")


def test_an_unknown_treatment_of_the_short_block_is_rejected():
    with pytest.raises(ValueError, match="short_block must be 'alike' or 'end-of-epoch', got 'skip'"):
        GaussSouthwell(short_block="skip")


def test_a_rule_given_by_name_uses_the_given_seed_and_an_object_its_own():
    assert rule_named("random", 7) == Random(seed=7)
    assert rule_named("shuffled", 7) == Shuffled(seed=7)
    own = Random(seed=3)
    assert rule_named(own, 7) is own


def test_an_invalid_rule_is_rejected_with_the_list_of_rules():
    with pytest.raises(ValueError, match=r"rule must be an object, such as Cyclic\(\), got the class"):
        rule_named(Cyclic)
    for odd in (3, None, "Cyclic"):
        with pytest.raises(ValueError, match=f"rule must be one of {', '.join(RULES)}, or"):
            rule_named(odd)
