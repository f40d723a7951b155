"""Who takes part in the scoreboard, and what has to be known of each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    # The name in tables.
    name: str
    # The section of requirements.txt; `node` is package.json.
    environment: str
    # The packages whose versions are told.
    packages: tuple
    # The class in peers/ that makes windows, and the one for windows that are not timed, if another.
    adapter: str = ""
    adapter_untimed: str = ""
    # Whether it aims at a number of tokens.
    has_budget: bool = True
    # How it was used.
    use: str = ""


WINDOWS = [
    Peer(
        "LangChain trim_messages", "langchain", ("langchain-core",), "langchain:Trim",
        use="`strategy=\"last\"`, `start_on=\"human\"`, `end_on=(\"human\", \"tool\")`, "
        "`include_system=True`, with the counter of the rules below",
    ),
    Peer(
        "LangChain context editing", "langchain", ("langchain",), "langchain:ContextEditing",
        has_budget=False,
        use="`ContextEditingMiddleware` with `ClearToolUsesEdit(trigger=budget)`, its other settings as they "
        "are, with the same counter. It clears tool results, and aims at no size",
    ),
    Peer(
        "LiteLLM trim_messages", "litellm", ("litellm",), "litellm:Trim",
        use="`max_tokens=budget`, `model=\"gpt-4o\"`, for which it counts with o200k itself",
    ),
    Peer(
        "LlamaIndex ChatMemoryBuffer", "llamaindex", ("llama-index-core",), "llamaindex:Buffer",
        "llamaindex:CountedBuffer",
        use="`token_limit=budget` with tiktoken's o200k; the system prompt beside it, as its chat engines do. "
        "It counts texts, and not the arguments of calls",
    ),
    Peer(
        "Semantic Kernel truncation", "semantickernel", ("semantic-kernel",),
        "semantickernel:Truncation", has_budget=False,
        use="`ChatHistoryTruncationReducer`, which counts messages: its `target_count` is what the budget holds "
        "at the session's mean size of a message",
    ),
    Peer(
        "Google ADK context filter", "adk", ("google-adk",), "adk:Filter", has_budget=False,
        use="`ContextFilterPlugin`, which counts invocations: so many as the budget holds at the session's mean. "
        "Its compaction of events asks a model, and none is asked here",
    ),
    Peer(
        "Vercel pruneMessages", "node", ("ai",), "vercel", has_budget=False,
        use="`toolCalls: \"before-last-2-messages\"`, `reasoning: \"before-last-message\"`, `emptyMessages: "
        "\"remove\"`. It prunes by kind, and aims at no size. Version 6 is the newest for Node 20",
    ),
    Peer(
        "headroom-ai compress", "headroom", ("headroom-ai",), "headroom:Compress", has_budget=False,
        use="`model_limit=budget`, and what was sent before as frozen. It compresses contents, and aims at no "
        "size. Its language model for prose is not on PyPI, so it is off (`kompress_model=\"disabled\"`)",
    ),
    Peer(
        "lossless-hermes-py", "hermes", ("lossless-hermes-py",), "hermes:Engine",
        use="`LcmContextEngine` with `config_context_length=budget`. Its summaries are a model's; none is asked "
        "here, so the beginning of the text stands in for a summary. It estimates tokens by characters",
    ),
]

RECORDS = [
    Peer(
        "LangGraph SqliteSaver", "langchain", ("langgraph", "langgraph-checkpoint-sqlite"), "langgraph",
        use="a graph of one node over `MessagesState`, `invoke` once a round",
    ),
    Peer(
        "OpenAI Agents SQLiteSession", "agents", ("openai-agents",), "agents",
        use="`add_items` with the two messages of a round",
    ),
]

PROXIES = [
    Peer("LiteLLM proxy", "litellm", ("litellm",), use="one model in its configuration, one worker"),
    Peer(
        "headroom proxy", "headroom", ("headroom-ai",),
        use="its defaults, but without its limit of requests a minute and without its cache of answers",
    ),
]
