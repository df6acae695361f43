//! The stylesheet, the script and the icon, under names that change with their content.

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use rust_embed::{EmbeddedFile, RustEmbed};

/// Characters of the content's hash in a name: enough to tell the versions of one file apart.
const HASH_CHARACTERS: usize = 12;

#[derive(RustEmbed)]
#[folder = "static/"]
struct Static;

/// Serves the files below `/static`.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/static/{file}", get(serve))
}

/// The URL of a file of `static/`, with the hash of its content in it.
pub(crate) fn url(file: &str) -> String {
    let found = Static::get(file).expect("pages ask for files that exist");
    let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
    format!("/admin/static/{stem}.{}.{extension}", hash(&found))
}

async fn serve(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(file) = Static::get(&unhashed(&name)) else {
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

/// `everpost.0123456789ab.css` to `everpost.css`.
fn unhashed(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        [stem, hash, extension] if hash.len() == HASH_CHARACTERS => format!("{stem}.{extension}"),
        _ => name.to_owned(),
    }
}

fn hash(file: &EmbeddedFile) -> String {
    let hash = file.metadata.sha256_hash();
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    hex[..HASH_CHARACTERS].to_owned()
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

    #[test]
    fn names_carry_a_hash_and_lead_back_to_the_file() {
        for file in ["everpost.css", "everpost.js", "icon.svg"] {
            let url = url(file);
            let name = url.strip_prefix("/admin/static/").expect("below static");
            assert_ne!(name, file);
            assert_eq!(unhashed(name), file);
            assert_ne!(content_type(name), "application/octet-stream");
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in ["everpost.css", "a.b.c", "..", "", "everpost.short.css"] {
            assert_eq!(unhashed(name), name);
        }
    }
}
