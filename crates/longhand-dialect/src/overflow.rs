//! How providers say that a request is too long.
//!
//! There is no standard for it: some give a code, most a sentence, and some answer with status 200. A
//! code decides at once; rate limits, which sound alike, are ruled out next; then the sentences are
//! tried, which also give the numbers.

use std::ops::Range;

use longhand_core::json::JsonKind;

use crate::sse::SseReader;
use crate::view::View;

/// A request was refused because it is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow {
    /// The most that may be sent, where the answer says so.
    pub limit: Option<u64>,
    /// The size of the request as the provider counted it, where the answer says so.
    pub asked: Option<u64>,
    /// Whether it has too many bytes instead of too many tokens.
    pub bytes: bool,
}

/// Says whether an answer means that the request was too long.
///
/// The body may be JSON of any shape, a stream of events or plain text. Of an answer with a status of
/// success only what it calls an error is looked at, so that words of a model are never taken for one.
///
/// ```
/// let body = r#"{"type":"error","error":{"type":"invalid_request_error",
///     "message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#;
/// let overflow = longhand_dialect::recognise(400, body).unwrap();
/// assert_eq!((overflow.asked, overflow.limit), (Some(210_000), Some(200_000)));
/// ```
pub fn recognise(status: u16, body: &str) -> Option<Overflow> {
    recognise_for(status, body, "")
}

/// Like [`recognise`], if the request is known: words that an error only quotes from the request do not count.
///
/// ```
/// let request = r#"{"messages":[{"role":"user","content":"Its maximum context length is 300 tokens."}]}"#;
/// let body = r#"{"error":{"message":"Invalid content: 'Its maximum context length is 300 tokens.'"}}"#;
/// assert!(longhand_dialect::recognise_for(400, body, request).is_none());
/// ```
pub fn recognise_for(status: u16, body: &str, request: &str) -> Option<Overflow> {
    let success = (200..300).contains(&status);
    if !success && !matches!(status, 400 | 413 | 422 | 429 | 500..) {
        return None;
    }
    if body.trim().is_empty() {
        return matches!(status, 400 | 413).then(Overflow::default);
    }
    // All that is looked for in such an answer has one of these words.
    if success && !["error", "exceed", "too_large"].iter().any(|sign| body.contains(sign)) {
        return None;
    }
    let mut signs = Signs::default();
    match View::parse_nested(body) {
        Some(view) => signs.read_answer(view, success),
        None if body.contains("data:") => {
            let mut reader = SseReader::default();
            let mut events = reader.push(body.as_bytes()).unwrap_or_default();
            events.extend(reader.finish());
            for event in &events {
                if let Some(view) = View::parse_nested(&event.data) {
                    signs.read_answer(view, success && event.name != "error");
                }
            }
        }
        None if success => return None,
        None => signs.texts.push(body.to_lowercase()),
    }
    signs.judge(status, request)
}

/// The fields that describe errors. Other fields may hold the request, or pieces of it.
const TELLING: &[&str] = &[
    "",
    "error",
    "errors",
    "error_message",
    "errormessage",
    "message",
    "msg",
    "detail",
    "details",
    "description",
    "reason",
    "title",
    "response",
    "metadata",
    "raw",
    "cause",
    "innererror",
];

/// The fields that hold codes.
const CODE_FIELDS: &[&str] = &["code", "type", "status", "__type", "error_type"];

const CODES: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "context_exceeded",
    "model_context_window_exceeded",
];

const BYTE_CODES: &[&str] = &["request_too_large"];

const VETO_CODES: &[&str] =
    &["rate_limit", "too_many_requests", "throttling", "insufficient_quota", "string_above_max"];

const VETO_TEXTS: &[&str] =
    &["rate limit", "rate_limit", "per minute", "too many requests", "(tpm)", "invalid 'user'"];

const VETO_STARTS: &[&str] = &["throttling", "service unavailable"];

const BYTE_TEXTS: &[&str] = &[
    "request entity too large",
    "request payload size exceeds",
    "payload too large",
    "request body too large",
    "request exceeds the maximum size",
    "string too long. expected a string with maximum length",
];

/// The sentences, in lower case. `L` is a number that is the limit, `A` one that was asked for (two of
/// them add up), `N` any other number, and `*` a gap.
const SENTENCES: &[&str] = &[
    // Anthropic.
    "prompt is too long: A tokens > L maximum",
    "prompt is too long",
    "exceed context limit: A + A > L",
    "exceed context limit",
    // OpenAI and all who copied it.
    "maximum context length is L tokens. however, your messages resulted in A tokens",
    "maximum context length is L tokens. however, you requested about A tokens",
    "maximum context length is L tokens. however, you requested A tokens",
    "maximum context length is L tokens. however, your request has A input tokens",
    "maximum context length is L",
    "maximum context length of L tokens. you requested a total of A tokens",
    "maximum context length of L",
    "model's maximum context limit",
    "exceeds the context window",
    "input tokens exceed the configured limit of L tokens. your messages resulted in A tokens",
    "input tokens exceed the configured limit of L",
    "input tokens exceed the configured limit",
    "reduce the length of the messages",
    "reduce the length of the input",
    // Gemini.
    "input token count (A) exceeds the maximum number of tokens allowed (L)",
    "input token count*exceeds the maximum",
    "exceeds the maximum number of tokens allowed",
    // Bedrock, Databricks.
    "input is too long",
    // xAI.
    "maximum prompt length is L but the request contains A tokens",
    "maximum prompt length is L",
    // Mistral.
    "prompt contains A tokens*too large for model with L maximum context length",
    "too large for model with L maximum context length",
    // vLLM; its "at least" is not what was asked for.
    "(length A) is longer than the maximum model length of L",
    "longer than the maximum model length of L",
    "maximum allowed input length of L",
    "maximum input length is L",
    "maximum input length is*tokens",
    // SGLang.
    "input (A tokens) is longer than the model's context length (L tokens)",
    "is longer than the model's context length",
    "input length (A tokens) exceeds the maximum allowed length (L tokens)",
    "input length*exceeds the maximum allowed length",
    "requested token count exceeds the model's maximum context length",
    "tokens in request more than max tokens allowed",
    // Text Generation Inference.
    "`inputs` tokens + `max_new_tokens` must be <= L. given: A `inputs` tokens",
    "`inputs` tokens + `max_new_tokens` must be <= L",
    "`inputs` tokens + `max_new_tokens` must be",
    "`inputs` must have less than L tokens. given: A",
    // llama.cpp and what is built on it.
    "request (A tokens) exceeds the available context size (L tokens)",
    "exceeds the available context size",
    "input (A tokens) is larger than the max context size (L tokens)",
    "is larger than the max context size",
    "prompt is longer than the context length",
    "input length*exceeds*context length",
    "cannot truncate prompt with n_keep (A) >= n_ctx (L)",
    "trying to keep the first A tokens*context length of only L tokens",
    "trying to keep the first N tokens",
    "greater than the context length",
    "context length is only L tokens",
    "context size has been exceeded",
    "prompt tokens (A) exceeds context size (L)",
    "prompt has A tokens, but the configured context size is L tokens",
    // Kimi, MiniMax, Copilot, Cerebras, Alibaba and others.
    "exceeded model token limit: L (requested: A)",
    "exceeded model token limit",
    "context window exceeds limit",
    "token count of A exceeds the limit of L",
    "exceeds the limit of L",
    "current length is A while limit is L",
    "requested input length*exceeds*maximum",
    "prompt too long",
    "exceeded context length",
    "exceeded max context length",
    "exceed*maximum context length",
    "context length exceeded",
    "context window exceeded",
    "context limit exceeded",
    "prompt has too many tokens",
    "too many input tokens",
    "too many tokens",
    "token limit exceeded",
];

/// No model has a smaller window, so a smaller number counts something else: pictures, tools.
const LIMIT_MIN: u64 = 256;

/// How deep JSON inside of strings is followed.
const DEPTH_MAX: usize = 6;

/// What an answer says about its error, in lower case.
#[derive(Default)]
struct Signs {
    codes: Vec<String>,
    texts: Vec<String>,
    limit: Option<u64>,
    asked: Option<u64>,
}

impl Signs {
    /// Reads a whole answer, or only the errors in it.
    fn read_answer(&mut self, view: View, errors_only: bool) {
        if !errors_only {
            return self.read(view, "", 0);
        }
        for element in view.elements() {
            self.read_answer(element, true);
        }
        if view.is("type", "error") || view.is("object", "error") {
            self.read(view, "", 0);
        }
        for error in [view.get("error"), view.path(&["response", "error"])].into_iter().flatten() {
            self.read(error, "error", 0);
        }
        let choice = view.get("choices").and_then(|choices| choices.elements().first().copied());
        for (holder, key) in [
            (Some(view), "stop_reason"),
            (view.get("delta"), "stop_reason"),
            (choice, "finish_reason"),
        ] {
            self.codes.extend(holder.and_then(|holder| holder.string(key)));
        }
    }

    fn read(&mut self, view: View, name: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match view.kind() {
            JsonKind::Object => {
                self.limit = self.limit.or(view.number("n_ctx"));
                self.asked = self.asked.or(view.number("n_prompt_tokens"));
                for (name, field) in view.fields() {
                    let name = name.to_lowercase();
                    let is_known = |names: &[&str]| names.contains(&name.as_str());
                    if is_known(TELLING) || is_known(CODE_FIELDS) {
                        self.read(field, &name, depth + 1);
                    }
                }
            }
            JsonKind::Array => {
                for element in view.elements() {
                    self.read(element, name, depth + 1);
                }
            }
            JsonKind::String => {
                let text = view.str().unwrap_or_default();
                if let Some(inner) = View::parse_nested(&text) {
                    self.read(inner, name, depth + 1);
                } else if CODE_FIELDS.contains(&name) {
                    self.codes.push(text.to_lowercase());
                } else {
                    self.texts.push(text.to_lowercase());
                }
            }
            _ => {}
        }
    }

    fn judge(mut self, status: u16, request: &str) -> Option<Overflow> {
        let coded = |codes: &[&str]| self.codes.iter().any(|code| codes.contains(&code.as_str()));
        let (known, bytes) = (coded(CODES), coded(BYTE_CODES));
        if !known && !bytes && self.is_vetoed(status) {
            return None;
        }
        let mut said = false;
        for sentence in SENTENCES {
            for text in &self.texts {
                if let Some((numbers, place)) = find(text, sentence) {
                    if is_quoted(text, place, request) {
                        continue;
                    }
                    said = true;
                    self.limit = self.limit.or(numbers.limit);
                    self.asked = self.asked.or(numbers.asked);
                }
            }
        }
        let says_bytes =
            self.texts.iter().any(|text| BYTE_TEXTS.iter().any(|known| text.contains(known)));
        let bytes = !known && !said && (bytes || says_bytes || status == 413);
        let limit = self.limit.filter(|limit| *limit >= LIMIT_MIN);
        (known || said || bytes).then_some(Overflow { limit, asked: self.asked, bytes })
    }

    fn is_vetoed(&self, status: u16) -> bool {
        status == 429
            || self.codes.iter().any(|code| VETO_CODES.iter().any(|veto| code.contains(veto)))
            || self.texts.iter().any(|text| {
                VETO_TEXTS.iter().any(|veto| text.contains(veto))
                    || VETO_STARTS.iter().any(|veto| text.starts_with(veto))
            })
    }
}

#[derive(Clone, Copy, Default)]
struct OverflowNumbers {
    limit: Option<u64>,
    asked: Option<u64>,
}

/// Words this near the beginning of a message are the provider's own.
const OPENING_BYTES: usize = 40;

/// Whether an error message only quotes words of the request: the request has them, and the message does not begin
/// with them. Words without a number count as the message's own even if they only stand near its beginning.
fn is_quoted(text: &str, place: Range<usize>, request: &str) -> bool {
    let words = &text[place.clone()];
    let has_number = words.contains(|c: char| c.is_ascii_digit());
    let opens = place.start == 0 || (place.start <= OPENING_BYTES && !has_number);
    !opens && request.to_lowercase().contains(words)
}

/// Finds a sentence anywhere in a text, and where it stands.
fn find(text: &str, sentence: &str) -> Option<(OverflowNumbers, Range<usize>)> {
    let first = sentence.find(is_placeholder).unwrap_or(sentence.len());
    let (head, tail) = sentence.split_at(first);
    text.match_indices(head).find_map(|(at, _)| {
        let (numbers, rest) = follow(&text[at + head.len()..], tail, OverflowNumbers::default())?;
        let is_limit = numbers.limit.is_none_or(|limit| limit >= LIMIT_MIN);
        is_limit.then(|| (numbers, at..text.len() - rest.len()))
    })
}

/// Matches the rest of a sentence at the start of a text; gives what follows it.
fn follow<'t>(
    text: &'t str,
    sentence: &str,
    mut numbers: OverflowNumbers,
) -> Option<(OverflowNumbers, &'t str)> {
    let Some(kind) = sentence.chars().next() else { return Some((numbers, text)) };
    let rest = &sentence[1..];
    if kind == '*' {
        let end = rest.find(is_placeholder).unwrap_or(rest.len());
        let (literal, rest) = rest.split_at(end);
        return text
            .match_indices(literal)
            .take_while(|(at, _)| *at <= GAP_BYTES_MAX)
            .find_map(|(at, _)| follow(&text[at + literal.len()..], rest, numbers));
    }
    if is_placeholder(kind) {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
        let digits: String = text[..end].chars().filter(char::is_ascii_digit).collect();
        let number = digits.parse().ok()?;
        match kind {
            'L' => numbers.limit = Some(number),
            'A' => numbers.asked = Some(numbers.asked.unwrap_or(0).saturating_add(number)),
            _ => {}
        }
        // A comma that ends the number belongs to the sentence.
        let end = text[..end].trim_end_matches(',').len();
        return follow(&text[end..], rest, numbers);
    }
    let end = sentence.find(is_placeholder).unwrap_or(sentence.len());
    let (literal, rest) = sentence.split_at(end);
    follow(text.strip_prefix(literal)?, rest, numbers)
}

const GAP_BYTES_MAX: usize = 200;

fn is_placeholder(c: char) -> bool {
    matches!(c, 'L' | 'A' | 'N' | '*')
}

#[cfg(test)]
mod tests;
