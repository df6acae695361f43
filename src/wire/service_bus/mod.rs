//! The REST runtime protocol of Azure Service Bus, as far as dead-letter queues need it
//! (rule S1.1, 4, 8): addresses, messages, tokens and errors.

pub mod address;
pub mod copy;
pub mod message;
pub mod sas;

/// The body of a refusal.
pub fn error_body(status: u16, detail: &str) -> String {
    let mut text = String::with_capacity(detail.len());
    for c in detail.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            // XML has no way to write them.
            c if c.is_control() && !matches!(c, '\n' | '\t') => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
    format!("<Error><Code>{status}</Code><Detail>{text}</Detail></Error>")
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
