//! The HTTP protocols of Azure Service Bus (rule S1.1, 4, 8, 9): addresses, messages, descriptions, tokens and errors.

pub mod address;
pub mod atom;
pub mod copy;
pub mod description;
pub mod entity;
pub mod http;
pub mod message;
pub mod readable;
pub mod resource;
pub mod sas;
pub mod shown;
pub mod xml;

use xml::Element;

/// The body of a rejection.
pub fn error_body(status: u16, detail: &str) -> String {
    let code = Element::of_text("Code", status.to_string());
    let detail = Element::of_text("Detail", detail);
    Element::new("Error")
        .with_children([code, detail])
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_in_an_error_stays_text() {
        let expected = "<Error><Code>404</Code><Detail>&lt;a&gt; &amp; \u{fffd}</Detail></Error>";
        assert_eq!(error_body(404, "<a> & \u{1}"), expected);
    }
}
