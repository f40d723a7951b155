use super::*;

fn nested(message: &str) -> String {
    format!(
        r#"{{"error":{{"message":{},"type":"invalid_request_error"}}}}"#,
        longhand_core::json::quote(message)
    )
}

fn check(who: &str, status: u16, body: &str, limit: Option<u64>, asked: Option<u64>) {
    let expected = Overflow { limit, asked, bytes: false };
    assert_eq!(recognise(status, body), Some(expected), "{who}: {body}");
}

#[test]
fn every_provider_is_understood() {
    for (who, status, body, limit, asked) in [
        (
            "OpenAI chat, Azure",
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            Some(8192),
            Some(9001),
        ),
        (
            "OpenAI chat, with the completion",
            400,
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).","code":"context_length_exceeded"}}"#,
            Some(4097),
            Some(5000),
        ),
        (
            "OpenAI, input limit",
            400,
            r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 273,001 tokens.","code":"context_length_exceeded"}}"#,
            Some(272_000),
            Some(273_001),
        ),
        (
            "Responses",
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","code":"context_length_exceeded","param":"input"}}"#,
            None,
            None,
        ),
        (
            "Responses, failed",
            200,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}"#,
            None,
            None,
        ),
        (
            "Responses, event with the code at the top",
            200,
            r#"{"type":"error","code":"context_length_exceeded","message":"too long","param":null}"#,
            None,
            None,
        ),
        (
            "Responses, event with the code inside",
            200,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"x\"}}\n\n",
            None,
            None,
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            Some(200_000),
            Some(210_000),
        ),
        (
            "Anthropic, with max_tokens",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
            Some(200_000),
            Some(210_000),
        ),
        (
            "Anthropic, stop reason",
            200,
            r#"{"type":"message","content":[],"stop_reason":"model_context_window_exceeded"}"#,
            None,
            None,
        ),
        (
            "Anthropic, stop reason in a stream",
            200,
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"model_context_window_exceeded\"}}\n\n",
            None,
            None,
        ),
        (
            "Gemini, in an array",
            400,
            r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
            Some(1_048_576),
            Some(1_200_000),
        ),
        (
            "Bedrock",
            400,
            r#"{"__type":"ValidationException","message":"Input is too long for requested model."}"#,
            None,
            None,
        ),
        (
            "OpenRouter",
            400,
            r#"{"error":{"code":400,"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of text input, 1000 in the output)."}}"#,
            Some(32_768),
            Some(40_000),
        ),
        (
            "OpenRouter, 200",
            200,
            r#"{"error":{"code":400,"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens."}}"#,
            Some(32_768),
            Some(40_000),
        ),
        (
            "OpenRouter, the upstream's body as a string",
            400,
            r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 300 tokens > 256 maximum\"}}"}}}"#,
            Some(256),
            Some(300),
        ),
        (
            "Groq",
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","code":"context_length_exceeded"}}"#,
            None,
            None,
        ),
        (
            "Mistral, flat",
            400,
            r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error"}"#,
            Some(32_768),
            Some(40_000),
        ),
        (
            "DeepSeek",
            400,
            r#"{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (139000 in the messages, 1000 in the completion).","code":"invalid_request_error"}}"#,
            Some(131_072),
            Some(140_000),
        ),
        (
            "xAI",
            400,
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 150000 tokens."}"#,
            Some(131_072),
            Some(150_000),
        ),
        (
            "vLLM: at least is not what was asked for",
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 100 output tokens and your prompt contains at least 8093 input tokens, for a total of at least 8193 tokens.","type":"BadRequestError","code":400}}"#,
            Some(8192),
            None,
        ),
        (
            "vLLM, older",
            400,
            r#"{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure…","code":400}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "SGLang",
            400,
            r#"{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).","type":"BadRequest","code":400}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "SGLang, with the completion",
            400,
            r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9000 tokens: 8000 tokens from the input messages and 1000 tokens for the completion.","code":400}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "TGI",
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3000 `inputs` tokens and 20 `max_new_tokens`","error_type":"validation"}"#,
            Some(2048),
            Some(3000),
        ),
        (
            "Ollama",
            400,
            r#"{"error":"the prompt is longer than the context length currently available"}"#,
            None,
            None,
        ),
        (
            "LM Studio",
            400,
            r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
            Some(4096),
            Some(5000),
        ),
        (
            "LM Studio, 200",
            200,
            r#"{"error":"Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)"}"#,
            Some(4096),
            Some(5000),
        ),
        (
            "LM Studio, in a stream",
            200,
            "event: error\ndata: {\"error\":{\"message\":\"Context size has been exceeded.\"}}\n\n",
            None,
            None,
        ),
        (
            "llama.cpp",
            400,
            r#"{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "llama.cpp, older",
            500,
            r#"{"error":{"code":500,"message":"input (9000 tokens) is larger than the max context size (8192 tokens). skipping","type":"server_error"}}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "Kimi",
            400,
            r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)","type":"invalid_request_error"}}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "MiniMax",
            400,
            r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)"}}"#,
            None,
            None,
        ),
        (
            "Copilot",
            400,
            r#"{"error":{"message":"prompt token count of 140000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
            Some(128_000),
            Some(140_000),
        ),
        (
            "Cerebras",
            400,
            r#"{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error"}"#,
            Some(8192),
            Some(9000),
        ),
        ("Cerebras, without a word", 400, "", None, None),
        ("Cerebras, without a word", 413, "\n", None, None),
        (
            "ds4",
            400,
            r#"{"error":{"type":"context_exceeded","message":"Prompt tokens (9000) exceeds context size (8192)"}}"#,
            Some(8192),
            Some(9000),
        ),
        (
            "a gateway, plain text",
            400,
            "upstream: prompt is too long: 300 tokens > 256 maximum",
            Some(256),
            Some(300),
        ),
        (
            "a gateway, JSON in the message",
            400,
            r#"{"message":"{\"error\":{\"code\":\"context_length_exceeded\"}}"}"#,
            None,
            None,
        ),
        (
            "a code outweighs a veto",
            400,
            r#"{"error":{"code":"context_length_exceeded","message":"over your rate limit tier's context"}}"#,
            None,
            None,
        ),
    ] {
        check(who, status, body, limit, asked);
    }
}

#[test]
fn every_sentence_of_the_list_is_known() {
    for sentence in SENTENCES {
        let said: String = sentence
            .chars()
            .map(|c| match c {
                'L' | 'A' | 'N' => "8192".to_owned(),
                '*' => " and so ".to_owned(),
                c => c.to_string(),
            })
            .collect();
        assert!(recognise(400, &nested(&said)).is_some(), "{said}");
        assert!(recognise(400, &said.to_uppercase()).is_some(), "{said}");
        assert_eq!(recognise(429, &nested(&said)), None, "{said}");
    }
}

#[test]
fn too_many_bytes_are_told_apart() {
    for (status, body) in [
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        ),
        (413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
        (400, r#"{"error":{"message":"Request payload size exceeds the limit: 20971520 bytes."}}"#),
        (413, r#"{"message":"no"}"#),
    ] {
        let found = recognise(status, body);
        assert!(found.is_some_and(|overflow| overflow.bytes), "{body}: {found:?}");
    }
}

#[test]
fn what_is_no_overflow_is_left_alone() {
    for (why, status, body) in [
        (
            "Groq's 413 is a rate limit",
            413,
            r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        ),
        ("status 429", 429, r#"{"error":{"message":"too many tokens"}}"#),
        ("rate limit", 400, r#"{"error":{"message":"Rate limit: too many tokens per minute"}}"#),
        ("throttling", 400, r#"{"message":"Throttling error: Too many tokens, please wait."}"#),
        ("unavailable", 503, r#"{"message":"Service unavailable: too many tokens in flight"}"#),
        (
            "a parameter",
            400,
            r#"{"error":{"message":"Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 90 instead.","code":"string_above_max_length"}}"#,
        ),
        ("pictures", 400, r#"{"error":{"message":"number of images exceeds the limit of 100"}}"#),
        (
            "max_tokens",
            400,
            r#"{"error":{"message":"max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens"}}"#,
        ),
        ("no key", 401, r#"{"error":{"message":"prompt is too long"}}"#),
        (
            "a model's words",
            200,
            r#"{"choices":[{"message":{"role":"assistant","content":"prompt is too long: 3 tokens > 2 maximum"},"finish_reason":"stop"}]}"#,
        ),
        (
            "a model's words in a stream",
            200,
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"context_length_exceeded, prompt is too long\"}}\n\n",
        ),
        ("no error", 200, r#"{"error":null,"output":[]}"#),
        ("plain text", 200, "prompt is too long"),
        ("nothing", 200, ""),
        ("deep nesting", 400, &"[".repeat(100_000)),
    ] {
        assert_eq!(recognise(status, body), None, "{why}: {body:.80}");
    }
}

#[test]
fn what_an_error_echoes_teaches_nothing() {
    let said = "I read that the maximum context length is 300 tokens, and prompt is too long.";
    let request = format!(r#"{{"messages":[{{"role":"user","content":"{said}"}}]}}"#);
    for body in [
        // FastAPI and pydantic send the request back.
        format!(
            r#"{{"detail":[{{"type":"missing","loc":["body"],"msg":"Field required","input":{request}}}]}}"#
        ),
        format!(r#"{{"error":{{"message":"bad request","request":{request},"body":"{said}"}}}}"#),
        format!(r#"{{"error":{{"message":"bad request","param":"{said}"}}}}"#),
        format!(r#"{{"error":{{"message":"Invalid value: '{said}'","code":"invalid_value"}}}}"#),
        format!("invalid content: {said}"),
    ] {
        assert_eq!(recognise_for(400, &body, &request), None, "{body}");
    }
    // Its own words count, even if others said them before.
    let body = nested("prompt is too long: 9000 tokens > 8192 maximum");
    let overflow = recognise_for(400, &body, &request);
    assert_eq!(
        overflow.map(|overflow| (overflow.limit, overflow.asked)),
        Some((Some(8192), Some(9000)))
    );
    let body = nested("Your input exceeds the context window of this model.");
    let talks = r#"{"messages":[{"content":"It said: Your input exceeds the context window."}]}"#;
    assert!(recognise_for(400, &body, talks).is_some());
}
