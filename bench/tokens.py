"""Counts o200k tokens, for the rules that judge windows and for peers that take a counter."""

import functools

# OpenAI counts 3 tokens around a message, one for its role, and 3 that prime the reply.
MESSAGE = 4
REPLY = 3

@functools.cache
def _encoding():
    # Here, so that the page can be written where no peer is installed.
    import tiktoken

    return tiktoken.get_encoding("o200k_base")


def text(value):
    """The tokens of a text."""
    return len(_encoding().encode_ordinary(value)) if value else 0


@functools.lru_cache(maxsize=200_000)
def _known(value):
    return text(value)


def remember():
    """Lets every later count of the same text come from memory, peers' own counts too: for work that is
    not timed."""
    global _count
    import tiktoken

    _count = _known
    encode = functools.lru_cache(maxsize=50_000)(tiktoken.Encoding.encode_ordinary)
    tiktoken.Encoding.encode = lambda self, text, **_: encode(self, text)


_count = text


def encode(value):
    """The tokens themselves, for peers that want them."""
    return _encoding().encode_ordinary(value)


def counted(value):
    """The tokens of a text, from memory if that is allowed."""
    return _count(value) if value else 0


def message(one):
    """The tokens of a message of Chat Completions."""
    total = MESSAGE + counted(words(one))
    if one.get("name"):
        total += 1 + counted(one["name"])
    for call in one.get("tool_calls") or []:
        function = call["function"]
        total += counted(call["id"]) + counted(function["name"]) + counted(function["arguments"])
    return total + counted(one.get("tool_call_id"))


def messages(many):
    """The tokens of a request."""
    return REPLY + sum(map(message, many))


def words(one):
    """The text of a message."""
    content = one.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""
