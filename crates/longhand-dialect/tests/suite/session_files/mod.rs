//! Session files of Claude Code, Codex and pi: which lines are the conversation, and what an edit does
//! to the others.

mod claude_code;
mod codex;
mod common;
mod loaded;
mod pi;
mod real;
