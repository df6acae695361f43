//! The stylesheet, the script and the icon, under addresses that change with their content.

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "static/"]
struct Static;

pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/static/{file}", get(serve))
}

pub(crate) fn url(file: &str) -> String {
    let found = Static::get(file).expect("pages ask for files that exist");
    format!("/admin/static/{file}?{}", hash(&found))
}

async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(file) = Static::get(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{}\"", hash(&file));
    let known = headers.get(IF_NONE_MATCH);
    if known.is_some_and(|known| known == tag.as_str()) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    // Whoever asks by a hash gets what belongs to it, or what is newer and just as good.
    let kept = [
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (CONTENT_TYPE, content_type(&name)),
        (ETAG, &tag),
    ];
    (kept, file.data).into_response()
}

/// Enough of it to tell the versions of one file apart.
fn hash(file: &EmbeddedFile) -> String {
    let hash = &file.metadata.sha256_hash()[..6];
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_carry_a_hash_of_the_content() {
        let mut hashes = BTreeSet::new();
        for file in ["everpost.css", "everpost.js", "icon.svg"] {
            let url = url(file);
            let (path, hash) = url.split_once('?').expect("a hash");
            assert_eq!(path, format!("/admin/static/{file}"));
            assert_eq!(hash.len(), 12);
            assert!(hashes.insert(hash.to_owned()), "{url}");
            assert_ne!(content_type(file), "application/octet-stream");
        }
    }
}
