//! What an agent kept in a form of its own, told in messages of Chat Completions.

use longhand_core::json::quote;

use crate::copilot;

/// A session of an agent whose form is only read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transcript {
    /// The agent.
    pub agent: String,
    /// Its id for the session.
    pub id: Option<String>,
    /// The folder that it was started in.
    pub folder: Option<String>,
    /// The messages.
    pub messages: Vec<TranscriptMessage>,
    /// What the agent wrote down when it compacted the conversation.
    pub notes: Vec<TranscriptNote>,
    /// The lines that could not be read, from 1.
    pub unread: Vec<u32>,
}

/// A message of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptMessage {
    /// The message, in JSON of Chat Completions.
    pub json: String,
    /// When it was said, as in RFC 3339.
    pub time: Option<String>,
}

/// What an agent noted between messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptNote {
    /// The message that it stands before, by its index.
    pub before: usize,
    /// What it says.
    pub text: String,
    /// When it was noted, as in RFC 3339.
    pub time: Option<String>,
}

impl Transcript {
    /// A transcript without messages.
    pub fn new(agent: &str) -> Self {
        Self { agent: agent.to_owned(), ..Self::default() }
    }

    /// Reads a file in the form of an agent whose form is only read; `None` if it is none.
    ///
    /// ```
    /// use longhand_dialect::Transcript;
    ///
    /// let log = concat!(
    ///     r#"{"type":"session.start","data":{"sessionId":"s1","context":{"cwd":"/src"}}}"#, "\n",
    ///     r#"{"type":"user.message","data":{"content":"Hello."},"timestamp":"2026-01-02T03:04:05Z"}"#, "\n",
    /// );
    /// let transcript = Transcript::of(log).unwrap();
    /// assert_eq!((transcript.agent.as_str(), transcript.folder.as_deref()), ("copilot", Some("/src")));
    /// assert_eq!(transcript.as_list(), r#"[{"role":"user","content":"Hello."}]"#);
    /// ```
    pub fn of(text: &str) -> Option<Self> {
        copilot::transcript(text)
    }

    /// Adds a message.
    pub fn add(&mut self, json: String, time: Option<String>) {
        self.messages.push(TranscriptMessage { json, time });
    }

    /// Adds the result of a call.
    pub fn answer(&mut self, call: &str, words: &str, time: Option<String>) {
        let (call, words) = (quote(call), quote(words));
        self.add(format!(r#"{{"role":"tool","tool_call_id":{call},"content":{words}}}"#), time);
    }

    /// All messages as a list of Chat Completions.
    pub fn as_list(&self) -> String {
        let messages: Vec<&str> =
            self.messages.iter().map(|message| message.json.as_str()).collect();
        format!("[{}]", messages.join(","))
    }
}
