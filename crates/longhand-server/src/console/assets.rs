//! The files of the page. They are in the binary, and have no archived text in them.

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use rust_embed::RustEmbed;

use super::response::{Refusal, guarded, with_type};
use crate::answer::ResponseBody;

#[derive(RustEmbed)]
#[folder = "src/console/page/"]
struct PageFiles;

/// Answers a request for a file; `path` is what follows the address of the page.
pub(super) fn answer(parts: &Parts, path: &str) -> Result<Response<ResponseBody>, Refusal> {
    if parts.method != Method::GET {
        return Err(Refusal::method("GET"));
    }
    // Addresses in the page are relative to the folder.
    let Some(file) = path.strip_prefix('/') else {
        let mut response = with_type(StatusCode::PERMANENT_REDIRECT, "text/plain", Vec::new());
        // Relative, since a private proxy has more before it.
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("console/"));
        return Ok(response);
    };
    let name = if file.is_empty() { "index.html" } else { file };
    let found = PageFiles::get(name).zip(type_of(name));
    let (file, kind) = found.ok_or_else(|| Refusal::not_found("the page has no such file"))?;
    let hash = blake3::hash(&file.data).to_hex();
    let tag = format!("\"{}\"", &hash[..32]);
    let is_known = parts.headers.get_all(IF_NONE_MATCH).iter().any(|known| {
        known.to_str().is_ok_and(|known| known.split(',').any(|known| known.trim() == tag))
    });
    let mut response = if is_known {
        let mut response = Response::new(ResponseBody::text(String::new()));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        Response::new(ResponseBody::Text(file.data.into_owned().into()))
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A browser asks whether it has changed: another release may have another page.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    Ok(guarded(response))
}

/// The type of a file by its ending; what has another ending is not served.
fn type_of(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => return None,
    })
}
