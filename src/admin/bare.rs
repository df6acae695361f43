//! Pages without navigation: signing in, setting up, and what only says something.

use crate::admin::outside::*;
use crate::admin::reader::Reader;
use crate::admin::widgets::print;

pub(crate) struct Bare {
    pub(crate) title: String,
    pub(crate) reader: Arc<Reader>,
}

impl Bare {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        let (title, reader) = (title.into(), Reader::current());
        Self { title, reader }
    }
}

pub(crate) fn draw(page: &impl Template) -> Response {
    draw_with(StatusCode::OK, page)
}

/// Every page is drawn here, so none of its texts and titles can look otherwise than it reads: templates have nothing
/// that steers, and so whatever does comes from others.
pub(crate) fn draw_with(status: StatusCode, page: &impl Template) -> Response {
    let html = page.render().expect("templates only write texts");
    let html = print::visible(&html);
    (status, Html(html)).into_response()
}

/// A page that has only a title and a text. The code that makes it does not know who reads it: it is drawn for
/// strangers and put into the response's extensions, where [`in_frame`](crate::admin::frame::in_frame) finds it and
/// draws it again for those who are signed in.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) title: &'static str,
    pub(crate) text: String,
    pub(crate) overview: String,
}

#[derive(Template)]
#[template(path = "pages/message.html")]
struct BarePage<'a> {
    frame: Bare,
    message: &'a Message,
}

impl Message {
    pub(crate) fn new(title: &'static str, text: String) -> Self {
        Self {
            title,
            text,
            overview: "/admin".to_owned(),
        }
    }

    pub(crate) fn draw(self, status: StatusCode) -> Response {
        let (frame, message) = (Bare::new(self.title), &self);
        let mut response = draw_with(status, &BarePage { frame, message });
        response.extensions_mut().insert(self);
        response
    }

    /// Makes the message for a response that the web framework has made, with the text of that response.
    pub(crate) fn of_answer(status: StatusCode, text: &str) -> Self {
        let title = match status {
            StatusCode::BAD_REQUEST => "Not understood",
            _ => "Not possible",
        };
        let text = match text.trim() {
            "" => status.canonical_reason().unwrap_or(title),
            text => text,
        };
        Self::new(title, print::sentence(text))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;
    use crate::admin::widgets::filters;

    #[derive(Template)]
    #[template(
        source = r#"<b title="{{ text }}">{{ text }}</b><input value="{{ text|exact }}">"#,
        ext = "html"
    )]
    struct Hostile<'a> {
        text: &'a str,
    }

    #[tokio::test]
    async fn nothing_steers_in_a_page_and_forms_send_back_what_they_got() {
        let text = "\u{202e}<i>\u{1b}[2J\u{200b}\n👩\u{200d}🚀\"";
        let drawn = draw(&Hostile { text }).into_body();
        let drawn = to_bytes(drawn, usize::MAX).await.expect("a page");
        let shown = "\\u{202e}&#60;i&#62;\\u{1b}[2J\\u{200b}\n👩\u{200d}🚀&#34;";
        let sent = "&#8238;&#60;i&#62;&#27;[2J&#8203;\n👩\u{200d}🚀&#34;";
        let expected = format!("<b title=\"{shown}\">{shown}</b><input value=\"{sent}\">");
        assert_eq!(String::from_utf8_lossy(&drawn), expected);
    }
}
