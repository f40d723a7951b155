//! `longhand count`.

mod content;

use anyhow::Result;
use longhand::context::{AgentCompaction, agent_compactions};
use longhand_core::{Part, Scale, Tokens};
use longhand_dialect::{Conversation, Finding};
use serde_json::{Value, json};

use self::content::ContextContent;
use crate::args::{CountArgs, InputArgs};
use crate::output::{counted, counted_as};
use crate::weigh::{MessageWeights, NamedMeter};
use crate::{CommandOutcome, hinted, input, output, weigh};

/// The columns of a line before the first words of its message.
const COLUMNS_BEFORE_GIST: usize = 28;

/// A conversation with what it counts for.
struct CountedFile {
    name: String,
    conversation: Conversation,
    meter: NamedMeter,
    messages: Vec<MessageWeights>,
    attributes: Tokens,
    reply: Tokens,
    /// What the compactions of its agent have cost.
    compactions: Vec<AgentCompaction>,
}

pub(crate) fn run(args: &CountArgs) -> Result<CommandOutcome> {
    match args.files.as_slice() {
        [] => one(args, &CountedFile::read(args, None)?)?,
        [file] => one(args, &CountedFile::read(args, Some(file))?)?,
        _ => return several(args),
    }
    Ok(CommandOutcome::Done)
}

/// One conversation: what takes up its context, or every message.
fn one(args: &CountArgs, file: &CountedFile) -> Result<()> {
    if args.json {
        output::print_json(&file.json())
    } else if args.quiet {
        output::print(&file.total().to_string())
    } else {
        let lines = if args.messages { file.lines() } else { ContextContent::of(file).lines(file) };
        output::print(&format!("{lines}{}", file.summary()))
    }
}

/// Several conversations, a line each, and their sum. One that cannot be read is named and left out.
fn several(args: &CountArgs) -> Result<CommandOutcome> {
    let mut files = Vec::new();
    let mut is_whole = true;
    for path in &args.files {
        match CountedFile::read(args, Some(path)) {
            Ok(file) => files.push(file),
            Err(error) => {
                is_whole = false;
                output::say(&format!("skipped: {error:#}"));
            }
        }
    }
    let total: Tokens = files.iter().map(CountedFile::total).sum();
    let is_exact = files.iter().all(|file| file.meter.is_exact);
    if args.json {
        let list: Vec<Value> = files.iter().map(CountedFile::json).collect();
        let report = json!({"files": list, "tokens": total.0, "exact": is_exact});
        output::print_json(&report)?;
    } else if args.quiet {
        output::print(&total.to_string())?;
    } else {
        let mut text = String::new();
        for file in &files {
            let (tokens, messages) =
                (file.meter.figure(file.total()), file.conversation.messages.len());
            let name = output::harmless_line(&file.name);
            let line = format!("{tokens:>11} {:>15}  {name}", counted(messages, "message"));
            text.push_str(&format!("{}\n", output::cut(&line)));
        }
        let mark = if is_exact { "" } else { "≈" };
        let total = format!("{mark}{}", longhand_core::grouped(total.0 as usize));
        text.push_str(&format!("{total:>11} tokens in {}\n", counted(files.len(), "file")));
        output::print(&text)?;
    }
    Ok(if is_whole { CommandOutcome::Done } else { CommandOutcome::No })
}

impl CountedFile {
    fn read(args: &CountArgs, file: Option<&std::path::Path>) -> Result<Self> {
        let input = InputArgs {
            file: file.map(std::path::Path::to_owned),
            dialect: args.dialect,
            max_input: args.max_input,
        };
        let conversation = input::read(&input)?;
        is_of_messages(&conversation, &input::name(&input))?;
        let meter = weigh::open(args.meter.meter.clone(), &conversation)?;
        let scale = Scale::new(&*meter.meter);
        let messages = weigh::messages(&conversation.messages, &meter.meter);
        let attributes = weigh::attributes(&conversation, &scale);
        let reply = scale.framing().reply;
        let name = input::name(&input);
        let compactions = compactions(&conversation, &scale);
        Ok(Self { name, conversation, meter, messages, attributes, reply, compactions })
    }

    fn total(&self) -> Tokens {
        let scale = Scale::new(&*self.meter.meter);
        let messages: Tokens = self.messages.iter().map(|weights| weights.tokens(&scale)).sum();
        messages + self.attributes + self.reply
    }

    /// What the messages before the newest answer count for, and what its provider counted.
    fn newest_usage(&self, scale: &Scale) -> Option<(Tokens, Tokens)> {
        let usage = self.conversation.loaded()?.usage.last()?;
        let before = self.messages[..usage.message].iter();
        let counted: Tokens = before.map(|weights| weights.tokens(scale)).sum();
        Some((counted + self.attributes + self.reply, Tokens(usage.input_tokens)))
    }

    fn session_json(&self, scale: &Scale) -> Option<Value> {
        let loaded = self.conversation.loaded()?;
        let mut session = json!({
            "lines": loaded.lines,
            "lines_off": loaded.lines_off,
            "bytes_off": loaded.bytes_off,
            "lines_unread": loaded.unread.len(),
            "dangling": loaded.dangling,
            "compactions": loaded.compactions,
            "compacted": self.compactions,
            "cleared": loaded.cleared,
        });
        if let Some((counted, reported)) = self.newest_usage(scale) {
            session["newest_answer"] = json!({"counted": counted.0, "reported": reported.0});
        }
        Some(session)
    }

    fn json(&self) -> Value {
        let scale = Scale::new(&*self.meter.meter);
        let messages = self.conversation.messages.iter().zip(&self.messages).enumerate();
        let messages: Vec<_> = messages
            .map(|(at, (message, weights))| {
                let (place, tokens) = (self.conversation.name_of(at), weights.tokens(&scale));
                json!({"at": place, "role": message.role.as_str(), "tokens": tokens.0})
            })
            .collect();
        let mut report = json!({
            "file": self.name,
            "dialect": self.conversation.dialect.as_str(),
            "meter": self.meter.name,
            "exact": self.meter.is_exact,
            "tokens": self.total().0,
            "attributes": self.attributes.0,
            "reply": self.reply.0,
            "bytes": self.conversation.bytes().len(),
        });
        if let Some(session) = self.session_json(&scale) {
            report["session"] = session;
        }
        for (key, value) in ContextContent::of(self).json(self) {
            report[key] = value;
        }
        report["messages"] = messages.into();
        report
    }

    fn lines(&self) -> String {
        let gist_max = output::columns().saturating_sub(COLUMNS_BEFORE_GIST).clamp(8, 60);
        let scale = Scale::new(&*self.meter.meter);
        let mut text = String::new();
        for (at, (message, weights)) in
            self.conversation.messages.iter().zip(&self.messages).enumerate()
        {
            let words = message.parts.first().map(gist_of_part).unwrap_or_default();
            text.push_str(&format!(
                "{at:>5}  {:<9} {:>9}  {}\n",
                message.role.as_str(),
                self.meter.figure(weights.tokens(&scale)),
                gist(&words, gist_max)
            ));
        }
        if self.attributes > Tokens::ZERO {
            let tools = self.meter.figure(self.attributes);
            text.push_str(&format!("{:>5}  {:<9} {tools:>9}\n", "", "tools"));
        }
        text
    }

    /// What of a session file is not sent, and what its provider counted.
    fn session_lines(&self) -> String {
        let Some(loaded) = self.conversation.loaded() else { return String::new() };
        let mut text = String::new();
        if loaded.lines_off > 0 {
            let (lines, bytes) =
                (counted(loaded.lines_off, "line"), self.conversation.bytes().len());
            let percent = (loaded.bytes_off * 100).div_ceil(bytes.max(1));
            let why = match loaded.compactions {
                0 => String::new(),
                count => format!("; the agent compacted it {}", counted(count, "time")),
            };
            text.push_str(&format!(
                "not loaded by the agent: {lines}, {percent}% of the file{why}\n"
            ));
        }
        for (at, compaction) in self.compactions.iter().enumerate() {
            text.push_str(&self.compaction_line(at + 1, compaction));
        }
        if loaded.cleared > 0 {
            text.push_str(&format!(
                "cleared by the agent: {}\n",
                counted(loaded.cleared, "result")
            ));
        }
        let faults = loaded.unread.len() + loaded.dangling;
        if faults > 0 {
            let (unread, dangling) = (loaded.unread.len(), loaded.dangling);
            text.push_str(&format!(
                "faults: {} that cannot be read, {} to a line that is not there; `longhand repair` mends what it can\n",
                counted(unread, "line"),
                counted(dangling, "link")
            ));
        }
        if let Some((ours, reported)) = self.newest_usage(&Scale::new(&*self.meter.meter)) {
            text.push_str(&format!(
                "before the newest answer: {} tokens; its provider counted {}\n",
                self.meter.figure(ours),
                longhand_core::grouped(reported.0 as usize)
            ));
        }
        text
    }

    /// What a compaction of the agent took away, what it left, and what was fetched again.
    fn compaction_line(&self, number: usize, compaction: &AgentCompaction) -> String {
        let figure = |tokens: u64| self.meter.figure(Tokens(tokens));
        let words = counted(compaction.summary_words as usize, "word");
        let again = match compaction.calls_again {
            0 => "no call was made again after it".to_owned(),
            calls => format!(
                "after it {} made again, {} tokens",
                counted_as(calls as usize, "call was", "calls were"),
                figure(compaction.tokens_again)
            ),
        };
        format!(
            "compaction {number}: {} tokens became {} ({words}); {again}\n",
            figure(compaction.tokens_before),
            figure(compaction.summary_tokens)
        )
    }

    fn summary(&self) -> String {
        self.session_lines()
            + &format!(
                "{} tokens in {} ({}, {})\n",
                self.meter.figure(self.total()),
                counted(self.messages.len(), "message"),
                self.conversation.dialect,
                self.meter.name
            )
    }
}

/// What the compactions of an agent have cost its session; none if it has not compacted it.
fn compactions(loaded: &Conversation, scale: &Scale) -> Vec<AgentCompaction> {
    if loaded.loaded().is_none_or(|loaded| loaded.compactions == 0) {
        return Vec::new();
    }
    let text = std::sync::Arc::new(loaded.bytes().to_owned());
    let everything = longhand_dialect::read_growing(text, Some(loaded.dialect));
    everything.map(|everything| agent_compactions(&everything, scale)).unwrap_or_default()
}

/// Refuses what is no message: a number or a text without a role would be counted as if it were sent.
fn is_of_messages(conversation: &Conversation, name: &str) -> Result<()> {
    let is_no_message = |finding: &Finding| {
        let place = finding.at.strip_suffix(".role").unwrap_or(&finding.at);
        let element =
            place.split_once('[').filter(|(list, _)| ["", "messages", "input"].contains(list));
        let is_element = element
            .and_then(|(_, index)| index.strip_suffix(']'))
            .is_some_and(|index| index.parse::<usize>().is_ok());
        finding.is_fault() && is_element
    };
    match conversation.check().into_iter().find(is_no_message) {
        Some(finding) => Err(hinted(
            format!("{name}: {finding}"),
            "`longhand check` lists all that is wrong with a conversation",
        )),
        None => Ok(()),
    }
}

/// What a part says, or what it is.
fn gist_of_part(part: &Part) -> String {
    match part {
        Part::Text(text) | Part::FixedText(text) => text.decode().into_owned(),
        Part::Other(other) => other.raw.decode().into_owned(),
        Part::Call(call) => format!("{}({})", call.name.decode(), call.arguments.decode()),
        Part::Result(result) => match result.content.first() {
            Some(Part::Text(text) | Part::FixedText(text)) => text.decode().into_owned(),
            Some(_) => "(not text)".to_owned(),
            None => String::new(),
        },
        Part::Thinking(_) => "(thinking)".to_owned(),
        Part::Image(_) => "(image)".to_owned(),
        Part::Media(_) => "(recording)".to_owned(),
        Part::File(_) => "(file)".to_owned(),
    }
}

/// The first words of a text, on one line and without control characters.
fn gist(text: &str, chars_max: usize) -> String {
    let words: Vec<_> = text.split_whitespace().take(12).collect();
    output::harmless_line(&words.join(" ")).chars().take(chars_max).collect()
}
