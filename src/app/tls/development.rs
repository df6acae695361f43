//! A certificate for this machine's names, from an authority that the appliance makes for itself.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::sign::CertifiedKey;
use time::{Duration, OffsetDateTime};

use super::served;
use crate::base::{Timestamp, regular_file};
use crate::store::{DataDir, write_private};

/// The certificate in the data directory that clients have to trust.
pub(crate) const AUTHORITY_FILE: &str = "tls-dev-ca.pem";

/// The file in the data directory with the key of the development authority.
pub(crate) const KEY_FILE: &str = "tls-dev-ca.key";

/// How long the authority is valid: longer than anybody develops on one data directory.
const AUTHORITY_DAYS: i64 = 3_650;

/// Validity of a certificate in days. Every start issues a new one. Browsers and Apple's systems accept at most 398
/// days.
const CERTIFICATE_DAYS: i64 = 397;

/// The names that a certificate is valid for.
pub(crate) struct CertificateNames {
    pub(crate) now: Timestamp,
    pub(crate) listening: Vec<SocketAddr>,
    /// The host of the public URL and others that are set.
    pub(crate) hosts: Vec<String>,
}

impl CertificateNames {
    fn all(&self) -> Vec<String> {
        let machine = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let addresses = loopback
            .into_iter()
            .chain(self.listening.iter().map(SocketAddr::ip));
        let mut all = vec!["localhost".to_owned(), machine];
        all.extend(addresses.map(|address| address.to_string()));
        all.extend(self.hosts.iter().cloned());
        all.sort_unstable();
        all.dedup();
        all.retain(|name| !name.is_empty());
        all
    }
}

/// Issues a new certificate from the authority in the data directory. The first call creates the authority.
pub(super) fn certificate(
    data_dir: &DataDir,
    names: &CertificateNames,
) -> anyhow::Result<CertifiedKey> {
    let files = [AUTHORITY_FILE, KEY_FILE].map(|name| data_dir.file(name));
    let now = OffsetDateTime::from_unix_timestamp_nanos(i128::from(names.now.as_ms()) * 1_000_000)?;
    let authority = authority(&files[0], &files[1], now).with_context(|| {
        format!(
            "the development certificate authority in {}",
            files[0].display()
        )
    })?;
    let mut params = CertificateParams::new(names.all())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Everpost");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    (params.not_before, params.not_after) = validity(now, CERTIFICATE_DAYS);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    served(
        &certificate.pem(),
        &key.serialize_pem(),
        [&files[0], &files[1]],
    )
}

fn authority(
    certificate: &Path,
    key: &Path,
    now: OffsetDateTime,
) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "Everpost development authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = validity(now, AUTHORITY_DAYS);
    let pair = match regular_file::open(key).and_then(io::read_to_string) {
        Ok(known) => KeyPair::from_pem(&known)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let pair = KeyPair::generate()?;
            write_private(certificate, &params.self_signed(&pair)?.pem())?;
            write_private(key, &pair.serialize_pem())?;
            pair
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Issuer::new(params, pair))
}

/// Returns a validity period of `days` from now. It begins a day ago, for clients whose clocks are slow.
fn validity(now: OffsetDateTime, days: i64) -> (OffsetDateTime, OffsetDateTime) {
    (now - Duration::DAY, now + Duration::days(days))
}
