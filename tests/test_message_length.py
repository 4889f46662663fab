"""Errors, warnings and log lines of the whole package are short sentences."""

from tests.messages import all_messages

MOST_WORDS = 20


def test_no_sentence_of_a_message_is_too_long():
    found = all_messages()
    assert len(found) > 500
    long = [f"{m.path}:{m.line}: {s}" for m in found for s in m.sentences() if len(s.split()) > MOST_WORDS]
    assert not long, "\n".join(long)
