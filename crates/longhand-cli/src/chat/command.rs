//! Commands that begin with a slash.

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    Context,
    Compact(String),
    Undo,
    Retry,
    Pin(String),
    Expand(String),
    Search(String),
    Model(Option<String>),
    Cost,
    Help,
    Quit,
}

pub(super) const HELP: &str = "\
/context            how the window is filled
/compact [TEXT]     fold all but the newest round now; TEXT is an instruction to the summariser
/undo               undo the newest batch of edits
/retry              send your last message again; the earlier answer stays in the archive
/pin [WORDS]        keep the newest message with these words, or your last one, in every window
/expand HANDLE      show what a handle stands for
/search WORDS       search this conversation
/model [NAME]       show or change the model
/cost               what this conversation has cost
/help               list the commands
/quit               leave, as Ctrl-D does

Ctrl-C stops an answer and keeps the part that arrived. After an answer that failed, Enter sends your message again, and \
the right arrow key edits it. To send a line that begins with /, begin it with //.";

/// The column at which the explanations in `HELP` begin.
pub(super) const HELP_COLUMN: usize = 20;

impl ChatCommand {
    /// Reads a line; `None` if it is for the model, an error if there is no such command.
    pub(super) fn parse(line: &str) -> Option<Result<Self, String>> {
        let rest = line.strip_prefix('/')?;
        if rest.starts_with('/') {
            return None;
        }
        let (name, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let words = words.trim().to_owned();
        let needs = |what: &str| Err(format!("/{name} needs {what}"));
        Some(match name {
            "context" => Ok(Self::Context),
            "compact" => Ok(Self::Compact(words)),
            "undo" => Ok(Self::Undo),
            "retry" => Ok(Self::Retry),
            "pin" => Ok(Self::Pin(words)),
            "expand" if words.is_empty() => needs("a handle"),
            "expand" => Ok(Self::Expand(words)),
            "search" if words.is_empty() => needs("words"),
            "search" => Ok(Self::Search(words)),
            "model" => Ok(Self::Model(Some(words).filter(|name| !name.is_empty()))),
            "cost" => Ok(Self::Cost),
            "help" | "?" => Ok(Self::Help),
            "quit" | "exit" | "q" => Ok(Self::Quit),
            _ => Err(format!("there is no /{name}; /help lists the commands")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_words() {
        assert_eq!(ChatCommand::parse("hello /help"), None);
        assert_eq!(ChatCommand::parse("//etc is a folder"), None);
        assert_eq!(
            ChatCommand::parse("/compact keep the ids"),
            Some(Ok(ChatCommand::Compact("keep the ids".into())))
        );
        assert_eq!(ChatCommand::parse("/model"), Some(Ok(ChatCommand::Model(None))));
        assert!(ChatCommand::parse("/expand").unwrap().unwrap_err().contains("needs a handle"));
        assert!(ChatCommand::parse("/nonsense").unwrap().unwrap_err().contains("no /nonsense"));
    }
}
