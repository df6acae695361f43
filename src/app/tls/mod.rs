//! TLS on the server's port. The certificate comes from two files, which may change while the server runs, or, for
//! development, from the server's own certificate authority.

mod development;
mod secure_stream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

pub(super) use self::development::{AUTHORITY_FILE, CertificateNames, KEY_FILE};
use self::secure_stream::{BoundedStream, RecordWatch};
pub(super) use self::secure_stream::{HANDSHAKE_BYTES_MAX, SecureStream};
use crate::app::config::Config;
use crate::app::files;
use crate::base::Timestamp;
use crate::store::DataDir;
use crate::wire::pem::{PemPart, certified_key, expires_at};

/// The first byte of a handshake: the content type of its record (RFC 8446, section 5.1).
pub(super) const HANDSHAKE: u8 = 22;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Maximum number of encrypted bytes that are buffered for a client that does not read: one TLS record.
const UNSENT_BYTES_MAX: usize = 16 * 1_024;

/// Bytes of a file with a certificate chain or a key.
const FILE_BYTES_MAX: usize = 262_144;

/// Serves TLS, with a certificate that can change.
#[derive(Clone)]
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<CurrentCertificate>,
    /// The files, and their modification times before they were read; `None` for a development certificate.
    files: Option<(Files, Changed)>,
}

impl Tls {
    /// Opens TLS as the settings ask for; returns `None` if they ask for none.
    pub(super) fn open(
        config: &Config,
        data_dir: &DataDir,
        names: &CertificateNames,
    ) -> anyhow::Result<Option<Self>> {
        let (certificate, files) = match (&config.tls_cert, &config.tls_key) {
            (Some(certificate), Some(key)) => {
                let files = Files {
                    certificate: certificate.clone(),
                    key: key.clone(),
                };
                let seen = files.changed_at(); // before they are read, so that no change is missed
                (files.read()?, Some((files, seen)))
            }
            _ if config.tls_dev => (development::certificate(data_dir, names)?, None),
            _ => return Ok(None),
        };
        Ok(Some(Self::of(certificate, files)?))
    }

    fn of(certificate: CertifiedKey, files: Option<(Files, Changed)>) -> anyhow::Result<Self> {
        let certificate = Arc::new(CurrentCertificate(RwLock::new(Arc::new(certificate))));
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as _);
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            certificate,
            files,
        })
    }

    /// Does the handshake on a new connection.
    pub(super) async fn accept<S>(&self, stream: S) -> io::Result<SecureStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let limited = |session: &mut ServerConnection| {
            session.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        };
        let bounded = BoundedStream::new(stream, RecordWatch::of_handshake());
        let secured = self.acceptor.accept_with(bounded, limited).await?;
        Ok(SecureStream::new(secured))
    }

    /// Returns when the certificate from the files expires; `None` for a development certificate, which is renewed at
    /// every start.
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        let current = self.certificate.0.read().unwrap();
        let certificate = current.cert.first()?;
        self.files.as_ref().and_then(|_| expires_at(certificate))
    }

    /// Reloads the files whenever they change. Keeps the old certificate if the files cannot be read or the key does
    /// not match the certificate. Open connections are not affected.
    pub(super) async fn follow_files(self) {
        let Some((files, mut known)) = self.files else {
            return;
        };
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let found = files.changed_at();
            if found == known {
                continue;
            }
            known = found;
            match files.read() {
                Ok(key) => {
                    *self.certificate.0.write().unwrap() = Arc::new(key);
                    tracing::info!("the TLS certificate was loaded again");
                }
                Err(problem) => {
                    tracing::error!(%problem, "the TLS certificate stays as it was");
                }
            }
        }
    }
}

/// The certificate that the next client gets.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap()))
    }
}

type Changed = [Option<SystemTime>; 2];

#[derive(Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn read(&self) -> anyhow::Result<CertifiedKey> {
        let [certificate, key] = [&self.certificate, &self.key].map(|path| {
            let text = files::text(path, FILE_BYTES_MAX).map_err(anyhow::Error::msg);
            text.with_context(|| path.display().to_string())
        });
        served(&certificate?, &key?, [&self.certificate, &self.key])
    }

    /// Returns the modification times of both files. A file that is temporarily missing counts as changed.
    fn changed_at(&self) -> Changed {
        [&self.certificate, &self.key].map(|path| std::fs::metadata(path).ok()?.modified().ok())
    }
}

/// Parses a certificate chain and its key. Errors name the file at fault.
fn served(certificate: &str, key: &str, files: [&Path; 2]) -> anyhow::Result<CertifiedKey> {
    match certified_key(certificate, key) {
        Ok(key) => Ok(key),
        Err((PemPart::Certificate, problem)) => bail!("{}: {problem}", files[0].display()),
        Err((PemPart::Key, problem)) => bail!("{}: {problem}", files[1].display()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::generate_simple_self_signed;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_rustls::TlsConnector;

    use super::*;

    /// TLS with a certificate for `one.test`, and a client that trusts it.
    fn tls_and_client() -> (Tls, TlsConnector) {
        let made = generate_simple_self_signed(["one.test".to_owned()]).expect("a certificate");
        let secret = made.signing_key.serialize_pem();
        let files = [Path::new("chain.pem"), Path::new("key.pem")];
        let key = served(&made.cert.pem(), &secret, files).expect("a key");
        let mut trusted = RootCertStore::empty();
        trusted.add(made.cert.der().clone()).expect("an authority");
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let client = client
            .with_safe_default_protocol_versions()
            .expect("versions");
        let client = client.with_root_certificates(trusted).with_no_client_auth();
        let tls = Tls::of(key, None).expect("TLS");
        (tls, TlsConnector::from(Arc::new(client)))
    }

    #[tokio::test]
    async fn no_more_is_kept_of_a_client_hello_than_a_connection_counts_for() {
        let (tls, _) = tls_and_client();
        let mut hello = vec![1, 0, 0xfd, 0xe8]; // it says that it has 65,000 bytes
        hello.resize(64_000, 0);
        let records = hello.chunks(16_000);
        let records: Vec<u8> = records
            .flat_map(|each| [&[HANDSHAKE, 3, 1, 0x3e, 0x80][..], each].concat())
            .collect();
        let mut left = records.as_slice();
        let stream = tokio::io::join(&mut left, tokio::io::sink());
        assert!(tls.accept(stream).await.is_err());
        let read = records.len() - left.len();
        assert!(read <= HANDSHAKE_BYTES_MAX + 4_096, "{read}");
    }

    #[tokio::test]
    async fn data_comes_and_goes_after_a_handshake() {
        let (tls, connector) = tls_and_client();
        let (here, there) = duplex(8_192);
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(300_000).collect();
        let sent = data.clone();
        let client = async {
            let name = ServerName::try_from("one.test").expect("a name");
            let mut client = connector.connect(name, there).await.expect("a handshake");
            client.write_all(&sent).await.expect("sent");
            client.shutdown().await.expect("its end");
        };
        let server = async {
            let mut server = tls.accept(here).await.expect("a handshake");
            let mut came = Vec::with_capacity(data.len());
            server.read_to_end(&mut came).await.expect("all of it");
            came
        };
        let ((), came) = tokio::join!(client, server);
        assert!(came == data);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_certificate_is_served_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let [certificate, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
        let mut second = 0;
        let mut write = |chain: &str, secret: &str| {
            second += 1; // as if time passed for the file system, too
            for (path, text) in [(&certificate, chain), (&key, secret)] {
                fs::write(path, text).expect("a file");
                let file = fs::File::options()
                    .write(true)
                    .open(path)
                    .expect("the file");
                let at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
                file.set_modified(at).expect("a time");
            }
        };
        let [one, two] = ["one.test", "two.test"]
            .map(|name| generate_simple_self_signed([name.to_owned()]).expect("a certificate"));
        let secrets = [&one, &two].map(|each| each.signing_key.serialize_pem());
        write(&one.cert.pem(), &secrets[0]);
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
        };
        let seen = files.changed_at();
        let tls = Tls::of(files.read().expect("a key"), Some((files, seen))).expect("TLS");
        let serves =
            |made: &rcgen::Certificate| tls.certificate.0.read().unwrap().cert[0] == *made.der();
        assert!(serves(&one.cert));
        tokio::spawn(tls.clone().follow_files());
        tokio::task::yield_now().await;

        write(&two.cert.pem(), &secrets[0]);
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert!(
            serves(&one.cert),
            "a chain whose key is another's is not served"
        );

        write(&two.cert.pem(), &secrets[1]);
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert!(serves(&two.cert));
    }
}
