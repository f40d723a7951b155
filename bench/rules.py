"""What every window must be, whoever made it. Each rule is a function of the request and its window."""

import tokens


def fits(request, window, budget):
    """No more tokens than the budget."""
    return tokens.messages(window) <= budget


def paired(request, window, budget):
    """Every result follows its call, and every call has its result."""
    open_calls = set()
    for message in window:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return False
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            return False
        open_calls = {call["id"] for call in message.get("tool_calls") or []}
    return not open_calls


def system_kept(request, window, budget):
    """The system prompt comes first, as it was; where there is none, nothing is asked."""
    if request[0]["role"] != "system":
        return True
    return bool(window) and window[0]["role"] == "system" and _says(window[0], request[0])


def user_kept(request, window, budget):
    """The newest user message is there, word for word."""
    newest = [message for message in request if message["role"] == "user"][-1:]
    users = [message for message in window if message["role"] == "user"]
    return not newest or any(_says(message, newest[0]) for message in users)


def nothing_empty(request, window, budget):
    """There is more than a system prompt, and every message says or calls something."""
    said = [message for message in window if message["role"] != "system"]
    full = all(tokens.words(message).strip() or message.get("tool_calls") for message in window)
    return bool(said) and full


def _says(message, original):
    return tokens.words(original) in tokens.words(message)


RULES = {
    "within budget": fits,
    "calls paired": paired,
    "system kept": system_kept,
    "last user kept": user_kept,
    "nothing empty": nothing_empty,
}
