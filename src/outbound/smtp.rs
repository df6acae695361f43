//! An SMTP session with a mail server (RFC 5321). Each reply is parsed once, after its last line has arrived. The
//! stream limits the number of bytes that a server may send.

use std::fmt::Display;
use std::io;

use lettre::Message;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::commands::{Auth, Data, Ehlo, Mail, Quit, Rcpt, Starttls};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter, ServerInfo};
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// An SMTP session, which alternately sends a command and reads the reply.
pub(super) struct Smtp<S> {
    stream: BufReader<S>,
    server: ServerInfo,
}

/// The reason that a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum SmtpError {
    /// The server rejected a command. Holds the text of the reply.
    #[error("{0}")]
    Rejected(String),
    #[error("the server offers no STARTTLS")]
    NoTls,
    /// The server sent plaintext after its reply to STARTTLS. An attacker on the network could have injected it as a
    /// reply within TLS.
    #[error("the server says more before TLS than it was asked for")]
    SaidBeforeTls,
    #[error("the server offers no way to sign in with a password")]
    NoPasswords,
    #[error("the server has closed the connection")]
    Closed,
    #[error("{0}")]
    Connection(#[from] io::Error),
    /// A reply that cannot be parsed.
    #[error("{0}")]
    Answer(#[from] smtp::Error),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Smtp<S> {
    /// Starts a session on a stream on which the server sends no greeting.
    pub(super) fn over(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
            server: ServerInfo::default(),
        }
    }

    /// Starts a session on a new connection and reads the server's greeting.
    pub(super) async fn greeted(stream: S) -> Result<Self, SmtpError> {
        let mut conversation = Self::over(stream);
        conversation.answer().await?;
        Ok(conversation)
    }

    /// Sends EHLO and keeps the extensions that the server offers.
    pub(super) async fn hello(&mut self, name: &ClientId) -> Result<(), SmtpError> {
        let answer = self.say(Ehlo::new(name.clone())).await?;
        self.server = ServerInfo::from_response(&answer)?;
        Ok(())
    }

    /// Sends STARTTLS and returns the stream, on which the TLS handshake comes next.
    pub(super) async fn start_tls(mut self) -> Result<S, SmtpError> {
        if !self.server.supports_feature(Extension::StartTls) {
            return Err(SmtpError::NoTls);
        }
        self.say(Starttls).await?;
        if !self.stream.buffer().is_empty() {
            return Err(SmtpError::SaidBeforeTls);
        }
        Ok(self.stream.into_inner())
    }

    pub(super) async fn sign_in(&mut self, credentials: &Credentials) -> Result<(), SmtpError> {
        let offered = self.server.get_auth_mechanism(DEFAULT_MECHANISMS);
        let mechanism = offered.ok_or(SmtpError::NoPasswords)?;
        let begin = Auth::new(mechanism, credentials.clone(), None)?;
        let mut answer = self.say(begin).await?;
        while answer.has_code(334) {
            let next = Auth::new_from_response(mechanism, credentials.clone(), &answer)?;
            answer = self.say(next).await?;
        }
        Ok(())
    }

    /// Submits a message and returns the server's reply.
    pub(super) async fn submit(&mut self, message: &Message) -> Result<Response, SmtpError> {
        let envelope = message.envelope();
        let mut addresses = envelope.from().into_iter().chain(envelope.to());
        let parameters = if addresses.all(|address| address.to_string().is_ascii()) {
            Vec::new()
        } else {
            vec![MailParameter::SmtpUtfEight]
        };
        self.say(Mail::new(envelope.from().cloned(), parameters))
            .await?;
        for address in envelope.to() {
            self.say(Rcpt::new(address.clone(), Vec::new())).await?;
        }
        self.say(Data).await?;
        self.write(&with_end(&message.formatted())).await?;
        self.answer().await
    }

    /// Sends QUIT without waiting for the reply, since the message has been accepted.
    pub(super) async fn quit(mut self) {
        if self.write(Quit.to_string().as_bytes()).await.is_ok() {
            let _ = self.stream.shutdown().await;
        }
    }

    async fn say(&mut self, command: impl Display) -> Result<Response, SmtpError> {
        self.write(command.to_string().as_bytes()).await?;
        self.answer().await
    }

    async fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.stream.write_all(text).await?;
        self.stream.flush().await
    }

    /// Reads a reply of one or more lines. All lines but the last have a hyphen after the code.
    async fn answer(&mut self) -> Result<Response, SmtpError> {
        let mut text = Vec::new();
        let mut goes_on = true;
        while goes_on {
            let begin = text.len();
            if self.stream.read_until(b'\n', &mut text).await? == 0 {
                return Err(SmtpError::Closed);
            }
            goes_on = text.get(begin + 3) == Some(&b'-');
        }
        let answer: Response = String::from_utf8_lossy(&text).parse()?;
        if !answer.is_positive() {
            return Err(SmtpError::Rejected(words(&answer)));
        }
        Ok(answer)
    }
}

/// Returns the code and the text of a reply on one line, such as `250 2.0.0 Taken`.
pub(super) fn words(answer: &Response) -> String {
    let lines: Vec<&str> = answer.message().collect();
    let words = format!("{} {}", answer.code(), lines.join(" "));
    words.trim().to_owned()
}

/// Returns a message as it is sent, ended by a line with a single dot. Lines that begin with a dot get a second dot.
fn with_end(message: &[u8]) -> Vec<u8> {
    let mut sent = Vec::with_capacity(message.len() + 8);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            sent.push(b'.');
        }
        sent.extend_from_slice(line);
    }
    if !sent.ends_with(b"\r\n") {
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b".\r\n");
    sent
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;

    /// A conversation with a server that gives these answers, and the other end of it.
    async fn with(answers: &[&str]) -> (Smtp<DuplexStream>, DuplexStream) {
        let (client, mut server) = duplex(64 * 1_024);
        let text = answers.concat();
        server.write_all(text.as_bytes()).await.expect("room");
        let mut conversation = Smtp::greeted(client).await.expect("a greeting");
        let name = ClientId::Domain("us.test".to_owned());
        conversation.hello(&name).await.expect("an answer");
        (conversation, server)
    }

    async fn said(mut server: DuplexStream) -> String {
        let mut said = String::new();
        server.read_to_string(&mut said).await.expect("text");
        said
    }

    fn message() -> Message {
        let builder = Message::builder()
            .from("a@us.test".parse().expect("an address"))
            .to("b@them.test".parse().expect("an address"));
        builder.body("one\r\n.two".to_owned()).expect("a message")
    }

    #[tokio::test]
    async fn a_message_is_handed_over() {
        let offer = "250-mx.test\r\n250 AUTH PLAIN\r\n";
        let answers = [
            "220-mx.test\r\n220 Welcome\r\n",
            offer,
            "235 Signed in\r\n",
            "250 Sender\r\n",
            "250 Recipient\r\n",
            "354 Go on\r\n",
            "250-Taken\r\n250 as 4711\r\n",
        ];
        let (mut conversation, server) = with(&answers).await;
        let credentials = Credentials::new("u".to_owned(), "p".to_owned());
        conversation
            .sign_in(&credentials)
            .await
            .expect("an account");
        let answer = conversation.submit(&message()).await.expect("taken");
        assert_eq!(words(&answer), "250 Taken as 4711");
        conversation.quit().await;
        let said = said(server).await;
        let begin = "EHLO us.test\r\nAUTH PLAIN AHUAcA==\r\nMAIL FROM:<a@us.test>\r\nRCPT TO:<b@them.test>\r\nDATA\r\n";
        assert!(said.starts_with(begin), "{said}");
        let end = "\r\n\r\none\r\n..two\r\n.\r\nQUIT\r\n";
        assert!(said.ends_with(end), "{said}");
    }

    #[tokio::test]
    async fn what_the_server_rejects_is_told_in_its_words() {
        let answers = [
            "220 Welcome\r\n",
            "250 mx.test\r\n",
            "550-5.7.1 Not\r\n550 you\r\n",
        ];
        let (mut conversation, server) = with(&answers).await;
        let error = conversation.submit(&message()).await.expect_err("rejected");
        assert_eq!(error.to_string(), "550 5.7.1 Not you");
        drop(server);
        let error = conversation.submit(&message()).await.expect_err("closed");
        assert!(matches!(error, SmtpError::Connection(_)), "{error}");
    }

    #[tokio::test]
    async fn nothing_that_came_before_tls_is_taken_for_an_answer_within() {
        let offer = "250-mx.test\r\n250 STARTTLS\r\n";
        let (conversation, _server) = with(&["220 Welcome\r\n", offer, "220 Go on\r\n"]).await;
        assert!(conversation.start_tls().await.is_ok());
        let more = "220 Go on\r\n250 Taken\r\n";
        let (conversation, _server) = with(&["220 Welcome\r\n", offer, more]).await;
        let error = conversation.start_tls().await.err();
        assert!(matches!(error, Some(SmtpError::SaidBeforeTls)), "{error:?}");
        let (conversation, _server) = with(&["220 Welcome\r\n", "250 mx.test\r\n"]).await;
        let error = conversation.start_tls().await.err();
        assert!(matches!(error, Some(SmtpError::NoTls)), "{error:?}");
    }
}
