//! Sessions as resources.

use longhand::app::{App, AppError, ExpandRequest, ListRequest, for_models};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents};

const SCHEME: &str = "longhand://session/";

/// How many sessions are listed.
const LISTED_MAX: usize = 50;

pub(crate) fn list(app: &App) -> Result<Vec<Resource>, AppError> {
    let request = ListRequest { limit: Some(LISTED_MAX), ..ListRequest::default() };
    let listed = app.sessions(&request)?.items;
    let resource = |uri: String, name: &str, task: &str| {
        Resource::new(uri, name).with_description(task).with_mime_type("text/plain")
    };
    let resources = listed
        .iter()
        .map(|session| resource(format!("{SCHEME}{}", session.id), &session.name, &session.task));
    Ok(resources.collect())
}

/// A session as people read it, from its beginning.
pub(crate) fn read(app: &App, uri: &str) -> Result<ReadResourceResult, AppError> {
    let name = uri.strip_prefix(SCHEME).ok_or_else(|| AppError::BadHandle(uri.to_owned()))?;
    let limit = Some(for_models::MESSAGES_MAX);
    let expanded = app.expand(&ExpandRequest { limit, ..ExpandRequest::of(name) })?;
    let text = for_models::read(&expanded, None, 0, &|_| true);
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]))
}
