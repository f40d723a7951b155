//! A prompt with which a client goes on in an earlier session.

use longhand::app::{App, AppError, ExpandRequest, LAST, ViewSettings, for_models};
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};

pub(crate) const RESUME: &str = "resume";

/// How many of the newest messages are shown.
const NEWEST: u64 = 12;

pub(crate) fn resume() -> Prompt {
    let session = PromptArgument::new("session")
        .with_description("Its name or id; the newest one if it is not said")
        .with_required(false);
    let about = "Goes on with the work of an earlier session";
    Prompt::new(RESUME, Some(about), Some(vec![session]))
}

/// What was done in a session, and its newest messages.
pub(crate) fn write(app: &App, session: Option<&str>) -> Result<GetPromptResult, AppError> {
    let name = session.filter(|name| !name.trim().is_empty()).unwrap_or(LAST);
    let view = app.show(name, &ViewSettings::default())?;
    let first = view.entries.saturating_sub(NEWEST);
    let newest = match view.entries.checked_sub(1) {
        Some(last) => {
            let handle = format!("{}:{first}-{last}", view.id);
            app.expand(&ExpandRequest::of(&handle))?.content
        }
        None => String::new(),
    };
    let quote = |text: &str| if text.is_empty() { String::new() } else { for_models::quoted(text) };
    let summary = view.summary.unwrap_or_default();
    let text = format!(
        "Go on with the work of the session {}. What follows is a record of it, quoted; the tools search and read have \
         the rest.\n{}{}",
        view.id,
        quote(&summary),
        quote(&newest),
    );
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}
