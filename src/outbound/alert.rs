//! Messages to alert channels.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, StatusCode};
use url::Host;

use crate::base::visible;
use crate::model::alert::{AlertChannel, AlertFormat, AlertSent, WebHookChannel};
use crate::model::limits::{ALERT_DEADLINE, RESPONSE_READ_MAX};
use crate::outbound::mask::Mask;
use crate::outbound::transport::{TransportRequest, TransportResponse};
use crate::outbound::{Outbound, mail};
use crate::wire::alert::AlertNotice;
use crate::wire::client_credentials::bearer;

/// Bytes of an answer that are told: what is wrong stands at its beginning.
const ANSWER_TOLD_MAX: usize = 200;

impl Outbound {
    /// Sends a message, and tells what the other side answered, or what went wrong.
    pub async fn send_alert(&self, channel: &AlertChannel, notice: &AlertNotice<'_>) -> AlertSent {
        match channel {
            AlertChannel::WebHook(webhook) => self.post_alert(webhook, notice).await,
            AlertChannel::Email(email) => {
                let addresses = self.mail_server(&email.host).await?;
                mail::send(email, &addresses, notice).await
            }
        }
    }

    async fn post_alert(&self, webhook: &WebHookChannel, notice: &AlertNotice<'_>) -> AlertSent {
        let url = webhook.url().ok_or("it has no URL")?;
        let token = webhook.token.as_ref();
        let (mut headers, body) = notice.request(webhook.format, token);
        if let Some(token) = token.filter(|_| webhook.format != AlertFormat::PagerDuty)
            && let Ok(mut value) = HeaderValue::from_str(bearer(token).reveal())
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut mask = Mask::default();
        for secret in [&webhook.endpoint_url, &webhook.token]
            .into_iter()
            .flatten()
        {
            mask.add(secret.reveal());
        }
        mask.add(url.path().trim_matches('/'));
        mask.add(url.query().unwrap_or_default());
        let request = TransportRequest {
            method: Method::POST,
            url,
            headers,
            body: Bytes::from(body),
            deadline: ALERT_DEADLINE,
            body_max: RESPONSE_READ_MAX,
            late: None,
            tls: None,
        };
        let sent = mask.hide(self.transport.send(request).await);
        let response = sent.map_err(|error| error.to_string())?;
        if (200..300).contains(&response.status) {
            Ok(told(&response))
        } else {
            Err(told(&response))
        }
    }

    /// The addresses of a mail server, all of which may be called.
    async fn mail_server(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        let host = Host::parse(host).map_err(|error| error.to_string())?;
        let network = self.transport.outside().ok_or("there is no network")?;
        let found = match host {
            Host::Domain(name) => network.guard().addresses(&name).await,
            Host::Ipv4(address) => Ok(vec![address.into()]),
            Host::Ipv6(address) => Ok(vec![address.into()]),
        };
        let addresses = found.map_err(|error| error.to_string())?;
        for address in &addresses {
            let permit = network.policy().check_address(*address);
            permit.map_err(|denied| format!("not called: {denied}"))?;
        }
        Ok(addresses)
    }
}

/// `404 Not Found: no_service`.
fn told(response: &TransportResponse) -> String {
    let status = StatusCode::from_u16(response.status).ok();
    let reason = status.and_then(|status| status.canonical_reason());
    let head = format!("{} {}", response.status, reason.unwrap_or_default());
    let body = &response.body[..response.body.len().min(ANSWER_TOLD_MAX)];
    let body = visible(String::from_utf8_lossy(body).trim(), &[]);
    if body.is_empty() {
        head.trim_end().to_owned()
    } else {
        format!("{}: {body}", head.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::model::access::Secret;
    use crate::model::alert::{AlertMessage, EmailChannel, SmtpSecurity};
    use crate::outbound::test_support::Receiver;

    fn webhook(format: AlertFormat) -> AlertChannel {
        AlertChannel::WebHook(WebHookChannel {
            format,
            endpoint_url: Some(Secret::new("https://hooks.test/services/T0/hush?sig=query")),
            token: Some(Secret::new("s3cret-token")),
        })
    }

    async fn send(channel: &AlertChannel, receiver: &std::sync::Arc<Receiver>) -> AlertSent {
        let message = AlertMessage::test();
        let notice = AlertNotice {
            rule: "a-rule",
            message: &message,
            link: "https://everpost.test/admin/alerts",
            source: "everpost.test",
            at: Timestamp::from_ms(0),
        };
        receiver.outbound().send_alert(channel, &notice).await
    }

    #[tokio::test]
    async fn what_the_other_side_answers_is_told_without_the_secrets() {
        let answer = "no_service at /services/T0/hush for s3cret-token\r\n";
        let receiver = Receiver::answering(404, "", answer);
        let sent = send(&webhook(AlertFormat::Slack), &receiver).await;
        let expected = "404 Not Found: no_service at /*** for ***";
        assert_eq!(sent, Err(expected.to_owned()));
        let request = receiver.only_request();
        assert!(
            request.contains("authorization: Bearer s3cret-token"),
            "{request}"
        );
        let receiver = Receiver::answering(200, "", "ok");
        assert_eq!(
            send(&webhook(AlertFormat::Json), &receiver).await,
            Ok("200 OK: ok".to_owned())
        );
        let receiver = Receiver::answering(302, "location: /elsewhere", "");
        assert_eq!(
            send(&webhook(AlertFormat::Json), &receiver).await,
            Err("302 Found".to_owned())
        );
    }

    #[tokio::test]
    async fn the_key_of_pager_duty_stands_in_the_body() {
        let receiver = Receiver::answering(202, "", "");
        let sent = send(&webhook(AlertFormat::PagerDuty), &receiver).await;
        assert_eq!(sent, Ok("202 Accepted".to_owned()));
        let request = receiver.only_request();
        assert!(!request.contains("authorization"), "{request}");
        assert!(
            request.contains("\"routing_key\":\"s3cret-token\""),
            "{request}"
        );
    }

    #[tokio::test]
    async fn no_mail_leaves_without_a_network() {
        let email = AlertChannel::Email(Box::new(EmailChannel {
            host: "smtp.example.com".to_owned(),
            port: 587,
            security: SmtpSecurity::StartTls,
            username: None,
            password: None,
            from: "everpost@example.com".to_owned(),
            to: vec!["ops@example.com".to_owned()],
        }));
        let sent = send(&email, &Receiver::answering(200, "", "")).await;
        assert_eq!(sent, Err("there is no network".to_owned()));
    }
}
