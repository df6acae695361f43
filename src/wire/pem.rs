//! Certificates and keys in PEM: judged when they are given, so that no delivery fails over them later.

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::base::Timestamp;

/// Which of two texts is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Certificate,
    Key,
}

/// Describes the fault of a client's certificate chain or key, if there is one.
pub(super) fn identity_problem(certificate: &str, key: &str) -> Option<(Part, String)> {
    certified_key(certificate, key).err()
}

/// Reads a certificate chain and its key. The error says which of them is at fault, and how.
pub(crate) fn certified_key(certificate: &str, key: &str) -> Result<CertifiedKey, (Part, String)> {
    let chain = certificates(certificate).map_err(|problem| (Part::Certificate, problem))?;
    if RootCertStore::empty().add(chain[0].clone()).is_err() {
        let problem = "its first certificate cannot be read".to_owned();
        return Err((Part::Certificate, problem));
    }
    let of_key = |problem: &str| (Part::Key, problem.to_owned());
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| {
        of_key(
            "there is no private key in it; it must be PEM (PKCS#8, PKCS#1 or SEC1) without a password",
        )
    })?;
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    certified.map_err(|error| {
        let is_another = matches!(error, rustls::Error::InconsistentKeys(_));
        of_key(if is_another {
            "it does not belong to the first certificate of the chain"
        } else {
            "it is no key that can be used; RSA, ECDSA and Ed25519 are"
        })
    })
}

/// When a certificate ends; `None` if it cannot be read.
pub(crate) fn expires_at(certificate: &[u8]) -> Option<Timestamp> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let seconds = certificate.validity().not_after.timestamp();
    Some(Timestamp::from_ms(seconds.saturating_mul(1_000)))
}

/// Describes the fault of a bundle of certificate authorities, if there is one.
pub(super) fn authorities_problem(text: &str) -> Option<String> {
    let found = match certificates(text) {
        Ok(found) => found,
        Err(problem) => return Some(problem),
    };
    let mut store = RootCertStore::empty();
    let unreadable = found.into_iter().position(|each| store.add(each).is_err());
    unreadable.map(|at| format!("certificate {} of it cannot be read", at + 1))
}

/// At least one.
fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match all {
        Ok(all) if all.is_empty() => {
            Err("there is no certificate in it; it must be PEM".to_owned())
        }
        Ok(all) => Ok(all),
        Err(_) => Err("it is no valid PEM".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use time::macros::datetime;

    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_told() {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["everpost.test".to_owned()]).expect("parameters");
        params.not_after = datetime!(2030-01-02 03:04:05 UTC);
        let certificate = params.self_signed(&key).expect("a certificate");
        let end = expires_at(certificate.der()).map(|at| at.to_string());
        assert_eq!(end.as_deref(), Some("2030-01-02T03:04:05.000Z"));
        assert_eq!(expires_at(b"no certificate"), None);
    }
}
