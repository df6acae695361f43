//! Alerts in the formats of their channels, as each service documents them for incoming messages.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::alert::{AlertFormat, AlertMessage};

/// The largest number of characters of a message that Discord accepts.
const DISCORD_CHARACTERS_MAX: usize = 2_000;

/// An alert message with its rule, its source and a link.
#[derive(Clone, Copy, Debug)]
pub struct AlertNotice<'a> {
    pub rule: &'a str,
    pub message: &'a AlertMessage,
    /// The page of the alerts.
    pub link: &'a str,
    /// The host of the appliance.
    pub source: &'a str,
    pub at: Timestamp,
}

impl AlertNotice<'_> {
    /// Returns the subject and the text of a mail.
    pub fn mail(&self) -> (String, String) {
        let AlertMessage { subject, text, .. } = self.message;
        (
            format!("[Everpost] {subject}"),
            format!("{text}\n\n{}\n", self.link),
        )
    }

    /// Returns the headers of a request in `format`, except for authorization, and its body.
    pub fn request(&self, format: AlertFormat, token: Option<&Secret>) -> (HeaderMap, Vec<u8>) {
        let AlertMessage {
            subject,
            text,
            is_firing,
        } = self.message;
        let link = self.link;
        let body = match format {
            AlertFormat::Json => {
                json!({ "rule": self.rule, "state": self.state(), "subject": subject,
                "text": text, "url": link, "at": self.at })
            }
            AlertFormat::Slack => {
                let (title, body) = (for_slack(subject), for_slack(text));
                json!({ "text": format!("*{title}*\n{body}\n<{link}|Open Everpost>") })
            }
            AlertFormat::Teams => self.adaptive_card(),
            AlertFormat::Discord => {
                let content = format!("**{subject}**\n<{link}>\n{text}");
                let content: String = content.chars().take(DISCORD_CHARACTERS_MAX).collect();
                json!({ "content": content, "allowed_mentions": { "parse": [] } })
            }
            AlertFormat::Ntfy => return (self.ntfy_headers(), text.clone().into_bytes()),
            AlertFormat::PagerDuty => json!({
                "routing_key": token.map(Secret::reveal),
                "event_action": if *is_firing { "trigger" } else { "resolve" },
                "dedup_key": format!("everpost/{}/{}", self.source, self.rule),
                "client": "Everpost",
                "client_url": link,
                "payload": { "summary": subject, "source": self.source, "severity": "error",
                    "custom_details": { "text": text } },
            }),
        };
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, json)]);
        (headers, body.to_string().into_bytes())
    }

    fn state(&self) -> &'static str {
        if self.message.is_firing {
            "Firing"
        } else {
            "Resolved"
        }
    }

    /// Returns an adaptive card for Teams workflows that post the body of a webhook request.
    fn adaptive_card(&self) -> Value {
        let AlertMessage {
            subject,
            text,
            is_firing,
        } = self.message;
        let color = if *is_firing { "Attention" } else { "Good" };
        // Each line becomes a paragraph of the text block.
        let paragraphs = text.replace('\n', "\n\n");
        let body = json!([
            { "type": "TextBlock", "text": subject, "weight": "Bolder", "color": color, "wrap": true },
            { "type": "TextBlock", "text": paragraphs, "wrap": true },
        ]);
        let action =
            json!({ "type": "Action.OpenUrl", "title": "Open Everpost", "url": self.link });
        json!({ "type": "message", "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
                "actions": [action],
            },
        }] })
    }

    fn ntfy_headers(&self) -> HeaderMap {
        let is_firing = self.message.is_firing;
        let tag = if is_firing {
            "rotating_light"
        } else {
            "white_check_mark"
        };
        let priority = if is_firing { "high" } else { "default" };
        let named = [
            ("title", self.message.subject.as_str()),
            ("click", self.link),
            ("tags", tag),
            ("priority", priority),
        ];
        // ntfy accepts UTF-8 in headers. Names and errors contain no control characters that would end a header.
        let header = |(name, text): (&'static str, &str)| {
            let value = HeaderValue::from_bytes(text.as_bytes()).ok()?;
            Some((HeaderName::from_static(name), value))
        };
        named.into_iter().filter_map(header).collect()
    }
}

/// Escapes the three characters that have a special meaning in Slack messages.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(format: AlertFormat, message: &AlertMessage) -> (HeaderMap, String) {
        let notice = AlertNotice {
            rule: "failing-endpoints",
            message,
            link: "https://everpost.test/admin/alerts",
            source: "everpost.test",
            at: Timestamp::from_ms(0),
        };
        let (headers, body) = notice.request(format, Some(&Secret::new("key")));
        (headers, String::from_utf8(body).expect("UTF-8"))
    }

    fn message(is_firing: bool) -> AlertMessage {
        AlertMessage {
            subject: "Endpoint failing: orders/billing".to_owned(),
            text: "orders/billing: <503> & more\nResolved: orders/crm".to_owned(),
            is_firing,
        }
    }

    /// Finds `expected` at `pointer` of the body.
    fn check(format: AlertFormat, is_firing: bool, pointer: &str, expected: &str) {
        let (headers, body) = request(format, &message(is_firing));
        assert_eq!(headers[CONTENT_TYPE], "application/json");
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let found = body.pointer(pointer).and_then(Value::as_str);
        assert_eq!(found, Some(expected), "{format:?}: {body}");
    }

    #[test]
    fn each_service_gets_what_it_takes() {
        check(AlertFormat::Json, true, "/state", "Firing");
        check(AlertFormat::Json, false, "/state", "Resolved");
        check(AlertFormat::Json, true, "/rule", "failing-endpoints");
        check(
            AlertFormat::Slack,
            true,
            "/text",
            "*Endpoint failing: orders/billing*\norders/billing: &lt;503&gt; &amp; \
            more\nResolved: orders/crm\n<https://everpost.test/admin/alerts|Open Everpost>",
        );
        let card = "/attachments/0/content";
        check(
            AlertFormat::Teams,
            true,
            &format!("{card}/body/0/color"),
            "Attention",
        );
        check(
            AlertFormat::Teams,
            false,
            &format!("{card}/body/0/color"),
            "Good",
        );
        check(
            AlertFormat::Teams,
            true,
            &format!("{card}/actions/0/url"),
            "https://everpost.test/admin/alerts",
        );
        check(AlertFormat::PagerDuty, true, "/event_action", "trigger");
        check(AlertFormat::PagerDuty, false, "/event_action", "resolve");
        check(AlertFormat::PagerDuty, true, "/routing_key", "key");
        check(
            AlertFormat::PagerDuty,
            true,
            "/dedup_key",
            "everpost/everpost.test/failing-endpoints",
        );
        check(
            AlertFormat::PagerDuty,
            true,
            "/payload/summary",
            "Endpoint failing: orders/billing",
        );
    }

    #[test]
    fn ntfy_takes_a_text_with_headers() {
        let (headers, body) = request(AlertFormat::Ntfy, &message(true));
        assert_eq!(body, message(true).text);
        assert_eq!(headers["title"], "Endpoint failing: orders/billing");
        assert_eq!(
            (&headers["priority"], &headers["tags"]),
            (
                &"high".parse().expect("a value"),
                &"rotating_light".parse().expect("a value")
            )
        );
    }

    #[test]
    fn discord_takes_two_thousand_characters() {
        let long = AlertMessage {
            text: "ä".repeat(3_000),
            ..message(true)
        };
        let (_, body) = request(AlertFormat::Discord, &long);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let content = body["content"].as_str().expect("a text");
        assert_eq!(content.chars().count(), DISCORD_CHARACTERS_MAX);
        assert!(
            content.starts_with("**Endpoint failing: orders/billing**\n<https://"),
            "{content}"
        );
    }
}
