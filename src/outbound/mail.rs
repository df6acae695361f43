//! Mail by SMTP.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lettre::Message;
use lettre::message::Mailboxes;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::base::{Timestamp, visible};
use crate::model::access::Secret;
use crate::model::alert::{AlertSent, EmailChannel, SmtpSecurity};
use crate::model::limits::ALERT_DEADLINE;
use crate::outbound::clients::tls;
use crate::outbound::mask::Mask;
use crate::outbound::smtp::{Smtp, SmtpError, words};
use crate::outbound::transport::{common, innermost};
use crate::outbound::unanswered::{AnsweringStream, UNANSWERED_MAX, UnansweredBytes};
use crate::wire::alert::AlertNotice;

/// The maximum time to connect to an address before the next one is tried. The last address has no such limit.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// Sends a message through the mail server at one of `addresses` and returns the server's answer. With TLS the
/// certificate must be valid for the server's host name.
pub(super) async fn send(
    email: &EmailChannel,
    addresses: &[IpAddr],
    notice: &AlertNotice<'_>,
) -> AlertSent {
    let sent = tokio::time::timeout(ALERT_DEADLINE * 2, submit(email, addresses, notice)).await;
    sent.unwrap_or_else(|_| Err("no answer within the deadline".to_owned()))
}

async fn submit(email: &EmailChannel, addresses: &[IpAddr], notice: &AlertNotice<'_>) -> AlertSent {
    let message = message(email, notice).map_err(|error| error.to_string())?;
    let mut mask = Mask::default();
    if let Some(password) = &email.password {
        mask.add(password.reveal());
    }
    let name = client_id(notice.source);
    match hand_over(email, addresses, &name, &message).await {
        Ok(response) => Ok(visible(&words(&response), &[])),
        Err(error) => Err(visible(&mask.text(told(&error)), &[])),
    }
}

async fn hand_over(
    email: &EmailChannel,
    addresses: &[IpAddr],
    name: &ClientId,
    message: &Message,
) -> Result<Response, SmtpError> {
    let socket = connect(addresses, email.port).await?;
    // `UNANSWERED_MAX` limits all bytes from the server, including those of TLS.
    let unanswered = UnansweredBytes::up_to(UNANSWERED_MAX);
    let socket = AnsweringStream::new(socket, unanswered);
    match email.security {
        SmtpSecurity::None => {
            let conversation = Smtp::greeted(socket).await?;
            converse(conversation, email, name, message).await
        }
        SmtpSecurity::Tls => {
            let conversation = Smtp::greeted(encrypted(socket, &email.host).await?).await?;
            converse(conversation, email, name, message).await
        }
        SmtpSecurity::StartTls => {
            let mut conversation = Smtp::greeted(socket).await?;
            conversation.hello(name).await?;
            let socket = conversation.start_tls().await?;
            let conversation = Smtp::over(encrypted(socket, &email.host).await?);
            converse(conversation, email, name, message).await
        }
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut conversation: Smtp<S>,
    email: &EmailChannel,
    name: &ClientId,
    message: &Message,
) -> Result<Response, SmtpError> {
    conversation.hello(name).await?;
    if let (Some(user), Some(password)) = (&email.username, &email.password) {
        conversation.sign_in(&credentials(user, password)).await?;
    }
    let response = conversation.submit(message).await?;
    conversation.quit().await;
    Ok(response)
}

/// Establishes TLS with the server. The certificate must be valid for `host`.
async fn encrypted<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
) -> io::Result<TlsStream<S>> {
    let config = tls(&[], None).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}

/// Connects to the first address that accepts a connection. Several addresses are tried because a host name may have
/// IPv6 addresses although this machine has no IPv6. If all addresses fail, returns the error of the last one.
async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let (last, others) = addresses.split_last().expect("a name has an address");
    for address in others {
        let connecting = TcpStream::connect((*address, port));
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_DEADLINE, connecting).await {
            return Ok(stream);
        }
    }
    TcpStream::connect((*last, port)).await
}

fn client_id(host: &str) -> ClientId {
    match host.parse() {
        Ok(IpAddr::V4(address)) => ClientId::Ipv4(address),
        Ok(IpAddr::V6(address)) => ClientId::Ipv6(address),
        Err(_) => ClientId::Domain(host.to_owned()),
    }
}

fn credentials(user: &str, password: &Secret) -> Credentials {
    Credentials::new(user.to_owned(), password.reveal().to_owned())
}

/// Returns a description of a common failure; for other errors, the error text followed by the innermost cause.
fn told(error: &SmtpError) -> String {
    if let Some(words) = common(error) {
        return words.to_owned();
    }
    let (text, cause) = (error.to_string(), innermost(error));
    if text.contains(&cause) {
        text
    } else {
        format!("{text}: {cause}")
    }
}

fn message(email: &EmailChannel, notice: &AlertNotice<'_>) -> Result<Message, Box<dyn Error>> {
    let (subject, text) = notice.mail();
    let to: Mailboxes = email.to.join(", ").parse()?;
    let message = to
        .into_iter()
        .fold(Message::builder(), |builder, to| builder.to(to));
    let (at, rule, source) = (notice.at, notice.rule, notice.source);
    Ok(message
        .from(email.from.parse()?)
        .subject(subject)
        .date(UNIX_EPOCH + at.since(Timestamp::from_ms(0)))
        // All attempts to send a notice use the same message id.
        .message_id(Some(format!("<{}.{rule}@{source}>", at.as_ms())))
        .header(ContentType::TEXT_PLAIN)
        .body(text)?)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::model::alert::AlertMessage;

    /// Sends by way of a server that says `part` again and again.
    async fn told_of_endless(part: &'static [u8]) -> AlertSent {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let email = EmailChannel {
            host: "smtp.example.com".to_owned(),
            port: address.port(),
            security: SmtpSecurity::StartTls,
            username: None,
            password: None,
            from: "everpost@example.com".to_owned(),
            to: vec!["ops@example.com".to_owned()],
        };
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            while stream.write_all(part).await.is_ok() {}
        });
        let message = AlertMessage::test();
        let notice = AlertNotice {
            rule: "a-rule",
            message: &message,
            link: "https://everpost.test/admin/alerts",
            source: "everpost.test",
            at: Timestamp::from_ms(0),
        };
        let sent = send(&email, &[address.ip()], &notice).await;
        server.await.expect("the connection ends");
        sent
    }

    #[tokio::test]
    async fn answers_are_read_up_to_a_bound() {
        let expected = format!("more than {UNANSWERED_MAX} bytes came without an answer");
        for part in [b"220-\r\n".as_slice(), b"220-a line without an end"] {
            assert_eq!(told_of_endless(part).await, Err(expected.clone()));
        }
    }
}
