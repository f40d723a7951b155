//! The request that a session's window is part of.

use longhand_core::{
    Batch, Message, Meter, Part, Path, Projection, Role, Scale, Seq, Shown, Text, Tokens, Wire,
    project,
};
use longhand_dialect::{Dialect, Finding, Sourced, change_message, read, write};
use serde_json::json;

use super::{Session, SessionError, ShownContent};
use crate::prompt::{Placement, Prompt, Window, quoted_block, quoted_recall};

/// What a window is made of: the prompt around the conversation, and the conversation's messages.
pub(super) struct SessionRequest {
    messages: Vec<Message>,
    dialects: Vec<Dialect>,
    lead: usize,
    seqs: Vec<Seq>,
    pub(super) wire: Wire,
    /// What the system message says before a block is put into it.
    base: String,
    recall: String,
}

impl SessionRequest {
    pub(super) fn of(session: &Session, message: Option<&str>, prompt: &Prompt) -> Self {
        let base = prompt.base.trim().to_owned();
        let recall = prompt.recall.trim().to_owned();
        let in_system = prompt.placement == Placement::System;
        let mut request = Self {
            messages: Vec::new(),
            dialects: Vec::new(),
            lead: 0,
            seqs: Vec::new(),
            wire: prompt.dialect.wire(),
            base,
            recall,
        };
        // The room that the quote of a block will take in the system message is counted from the start.
        let mut system = request.base.clone();
        if in_system {
            system = request.system(Some(""));
        }
        if !system.is_empty() {
            request.push(Dialect::Chat, plain(Role::System, &system), None);
            request.lead = 1;
        }
        for entry in &session.shown {
            if let ShownContent::Message(dialect, message) = &entry.content {
                request.push(*dialect, message.clone(), Some(entry.seq));
            }
        }
        let mut next = session.entries;
        if !in_system && !request.recall.is_empty() {
            let recall = quoted_recall(&request.recall);
            request.push(Dialect::Chat, plain(Role::User, &recall), Some(Seq(next)));
            next += 1;
        }
        if let Some(message) = message {
            request.push(Dialect::Chat, plain(Role::User, message), Some(Seq(next)));
        }
        request
    }

    fn push(&mut self, dialect: Dialect, message: Message, seq: Option<Seq>) {
        self.messages.push(message);
        self.dialects.push(dialect);
        self.seqs.extend(seq);
    }

    pub(super) fn path(&self) -> Path<'_> {
        Path { messages: &self.messages, lead: self.lead, seqs: &self.seqs }
    }

    pub(super) fn system_tokens(&self, meter: &dyn Meter) -> Tokens {
        let scale = Scale::new(meter);
        self.messages[..self.lead].iter().map(|message| scale.message(message, Tokens::MAX)).sum()
    }

    /// The one system message: base prompt, block and recall, with a blank line between.
    fn system(&self, block: Option<&str>) -> String {
        let block = block.map(quoted_block);
        let recall = Some(&self.recall).filter(|recall| !recall.is_empty());
        let recall = recall.map(|recall| quoted_recall(recall));
        let base = Some(self.base.clone()).filter(|base| !base.is_empty());
        let sections: Vec<String> = base.into_iter().chain(block).chain(recall).collect();
        sections.join("\n\n")
    }

    /// The messages that a window shows, with their formats.
    pub(super) fn shown_messages(&self, window: &Projection) -> Vec<(Dialect, Message)> {
        let mut out = Vec::new();
        let mut inserts = window.inserts.iter().peekable();
        for at in 0..=self.messages.len() {
            if let Some(block) = window.block.as_ref().filter(|block| block.before == at) {
                out.push((Dialect::Chat, plain(Role::User, &block.text)));
            }
            while let Some((_, text)) = inserts.next_if(|(before, _)| *before == at) {
                out.push((Dialect::Chat, plain(Role::User, text)));
            }
            let Some(message) = self.messages.get(at) else { break };
            match &window.messages[at] {
                Shown::Unchanged => out.push((self.dialects[at], message.clone())),
                Shown::Folded => {}
                Shown::Changed(changes) => {
                    let dialect = self.dialects[at];
                    out.extend(
                        change_message(dialect, message, changes).map(|message| (dialect, message)),
                    );
                }
            }
        }
        out
    }

    /// Writes the window of some live batches in the format of the prompt.
    pub(super) fn write(
        &self,
        live: &[Batch],
        prompt: &Prompt,
        meter: &dyn Meter,
    ) -> Result<Window, SessionError> {
        let mut window = project(&self.path(), live, self.wire);
        let mut system = None;
        if prompt.placement == Placement::System {
            let block = window.block.take().map(|block| block.text);
            system = Some(self.system(block.as_deref())).filter(|system| !system.is_empty());
        }
        let mut shown = self.shown_messages(&window);
        if let Some(system) = system {
            shown.drain(..self.lead);
            shown.insert(0, (Dialect::Chat, plain(Role::System, &system)));
        } else if prompt.placement == Placement::System {
            shown.drain(..self.lead);
        }
        let sourced: Vec<Sourced> =
            shown.iter().map(|(dialect, message)| (*dialect, message)).collect();
        let json = write(&sourced, prompt.dialect);
        let mut conversation = read(json.into_bytes(), Some(prompt.dialect))?;
        // What was recorded may have been broken off in the middle of a call.
        if conversation.check().iter().any(Finding::is_fault) {
            conversation = conversation.repair()?;
        }
        let scale = Scale::new(meter);
        let messages = conversation.messages.iter();
        let tokens: Tokens = messages.map(|message| scale.message(message, Tokens::MAX)).sum();
        let tokens = tokens + scale.framing().reply;
        let json = conversation.bytes().to_owned();
        Ok(Window { json, tokens, shortfall: Tokens::ZERO })
    }
}

fn plain(role: Role, text: &str) -> Message {
    let raw = json!({"role": role.as_str(), "content": text}).to_string();
    Message::new(role, None, vec![Part::Text(Text::from(text))], Text::from(raw))
}
