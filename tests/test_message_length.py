"""Messages are short sentences: errors, warnings and log lines of the whole package."""

from tests.messages import all_messages

MOST_WORDS = 20


def test_no_sentence_of_a_message_is_longer_than_one_reads_at_a_glance():
    found = all_messages()
    assert len(found) > 500
    long = [f"{m.path}:{m.line}: {s}" for m in found for s in m.sentences() if len(s.split()) > MOST_WORDS]
    assert not long, "\n".join(long)
