//! Mail by SMTP.

use std::error::Error;
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use lettre::message::Mailboxes;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use tokio::net::TcpStream;

use crate::base::{Timestamp, visible};
use crate::model::access::Secret;
use crate::model::alert::{AlertSent, EmailChannel, SmtpSecurity};
use crate::model::limits::ALERT_DEADLINE;
use crate::outbound::mask::Mask;
use crate::outbound::transport::{common, innermost};
use crate::wire::alert::AlertNotice;

/// How long one of several addresses may take to be connected to.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// Sends a message over the server at one of `addresses`, whose certificate must be that of its host, and tells what the
/// server answered.
pub(super) async fn send(
    email: &EmailChannel,
    addresses: &[IpAddr],
    notice: &AlertNotice<'_>,
) -> AlertSent {
    // Each command has its deadline, and all of them together have one, too.
    let sent = tokio::time::timeout(ALERT_DEADLINE * 2, submit(email, addresses, notice)).await;
    sent.unwrap_or_else(|_| Err("no answer within the deadline".to_owned()))
}

async fn submit(email: &EmailChannel, addresses: &[IpAddr], notice: &AlertNotice<'_>) -> AlertSent {
    let message = message(email, notice).map_err(|error| error.to_string())?;
    let tls = || TlsParameters::new(email.host.clone());
    let security = match email.security {
        SmtpSecurity::StartTls => tls().map(Tls::Required),
        SmtpSecurity::Tls => tls().map(Tls::Wrapper),
        SmtpSecurity::None => Ok(Tls::None),
    };
    let security = security.map_err(|error| error.to_string())?;
    let address = reachable(addresses, email.port).await;
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
        .port(email.port)
        .tls(security)
        .hello_name(client_id(notice.source))
        .timeout(Some(ALERT_DEADLINE));
    let mut mask = Mask::default();
    let transport = match (&email.username, &email.password) {
        (Some(user), Some(password)) => {
            mask.add(password.reveal());
            transport.credentials(credentials(user, password))
        }
        _ => transport,
    };
    match transport.build().send(message).await {
        Ok(response) => {
            let lines: Vec<&str> = response.message().collect();
            let said = format!("{} {}", response.code(), lines.join(" "));
            Ok(visible(said.trim(), &[]))
        }
        Err(error) => Err(visible(&mask.text(told(&error)), &[])),
    }
}

/// The first address that takes connections: machines without IPv6 find such addresses of a name, too. If there is none,
/// the last one, which then says what is wrong.
async fn reachable(addresses: &[IpAddr], port: u16) -> IpAddr {
    let (last, others) = addresses.split_last().expect("a name has an address");
    for address in others {
        let connecting = TcpStream::connect((*address, port));
        let connected = tokio::time::timeout(CONNECT_DEADLINE, connecting).await;
        if matches!(connected, Ok(Ok(_))) {
            return *address;
        }
    }
    *last
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

/// The error with what lies behind it, which says more.
fn told(error: &lettre::transport::smtp::Error) -> String {
    if let Some(words) = common(error) {
        return words.to_owned();
    }
    let (text, cause) = (error.to_string(), innermost(error));
    match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
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
        // The same in all attempts.
        .message_id(Some(format!("<{}.{rule}@{source}>", at.as_ms())))
        .header(ContentType::TEXT_PLAIN)
        .body(text)?)
}
