//! HTTP clients: a shared one, and one for each TLS material, so that no connection made with one client
//! certificate serves another subscription.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;

use crate::model::credentials::{ClientCertificate, TlsMaterial};
use crate::model::limits::{IN_FLIGHT_MAX, TLS_CLIENTS_MAX};
use crate::outbound::connect_watch::ConnectWatch;
use crate::outbound::connector::Connector;
use crate::outbound::resolver::Guard;
use crate::outbound::transport::{HEADER_BLOCK_MAX, IDLE_KEPT, NetworkError, innermost};

/// The HTTP/2 flow-control window of a stream: bytes of one body that a receiver may send before they are read.
const STREAM_WINDOW: u32 = 64 * 1_024;

/// The HTTP/2 flow-control window of a connection: bytes of all bodies that a receiver may send before they are read.
const CONNECTION_WINDOW: u32 = 128 * 1_024;

/// Makes requests over pooled connections. Cheap to clone.
pub(super) type Client = legacy::Client<Connector, Full<Bytes>>;

/// The clients of one network.
pub(super) struct HttpClients {
    guard: Guard,
    /// Certificate authorities that are trusted in addition to those of the system.
    authorities: Vec<CertificateDer<'static>>,
    shared: Client,
    own: Mutex<OwnClients>,
}

#[derive(Default)]
struct OwnClients {
    clients: HashMap<Arc<TlsMaterial>, Used>,
    /// Counts uses, to find the least recently used client.
    uses: u64,
}

struct Used {
    client: Client,
    last_use: u64,
}

impl HttpClients {
    pub(super) fn new(
        guard: Guard,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, NetworkError> {
        Ok(Self {
            shared: client(guard.clone(), ConnectWatch::default(), &authorities, None)?,
            guard,
            authorities,
            own: Mutex::default(),
        })
    }

    /// Returns the client for this TLS material. If there are more than [`TLS_CLIENTS_MAX`] clients, the least recently
    /// used one is dropped.
    pub(super) fn find(&self, tls: Option<&Arc<TlsMaterial>>) -> Result<Client, NetworkError> {
        let Some(material) = tls else {
            return Ok(self.shared.clone());
        };
        if let Some(client) = self.own.lock().unwrap().find(material) {
            return Ok(client);
        }
        // The client is made outside the lock, since this reads the system's certificates.
        let client = self.make(material)?;
        let mut own = self.own.lock().unwrap();
        own.keep(Arc::clone(material), client.clone());
        Ok(client)
    }

    /// Makes a client without pooled connections. `watch` measures the time to connect.
    pub(super) fn fresh(&self, watch: ConnectWatch) -> Result<Client, NetworkError> {
        client(self.guard.clone(), watch, &self.authorities, None)
    }

    fn make(&self, material: &TlsMaterial) -> Result<Client, NetworkError> {
        let mut authorities = self.authorities.clone();
        if let Some(text) = &material.authorities {
            authorities.extend(read_authorities(text.as_bytes())?);
        }
        let certificate = material.client_certificate.as_ref();
        let identity = certificate
            .map(ClientIdentity::read)
            .transpose()
            .map_err(|error| NetworkError::Client(innermost(&error)))?;
        let watch = ConnectWatch::default();
        client(self.guard.clone(), watch, &authorities, identity)
    }
}

impl OwnClients {
    fn find(&mut self, material: &Arc<TlsMaterial>) -> Option<Client> {
        self.uses += 1;
        let used = self.clients.get_mut(material)?;
        used.last_use = self.uses;
        Some(used.client.clone())
    }

    fn keep(&mut self, material: Arc<TlsMaterial>, client: Client) {
        if self.clients.len() >= TLS_CLIENTS_MAX {
            let longest = self.clients.iter().min_by_key(|(_, used)| used.last_use);
            if let Some(rested) = longest.map(|(material, _)| Arc::clone(material)) {
                self.clients.remove(&rested);
            }
        }
        let last_use = self.uses;
        self.clients.insert(material, Used { client, last_use });
    }
}

fn client(
    guard: Guard,
    watch: ConnectWatch,
    authorities: &[CertificateDer<'static>],
    identity: Option<ClientIdentity>,
) -> Result<Client, NetworkError> {
    let tls =
        tls(authorities, identity).map_err(|error| NetworkError::Client(innermost(&error)))?;
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_KEPT)
        .pool_max_idle_per_host(IN_FLIGHT_MAX)
        .http1_max_buf_size(HEADER_BLOCK_MAX as usize)
        .http2_max_header_list_size(HEADER_BLOCK_MAX)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(Connector::new(guard, tls, watch));
    Ok(client)
}

/// Returns a TLS configuration that trusts the system's certificate authorities and the given `authorities`.
pub(super) fn tls(
    authorities: &[CertificateDer<'static>],
    identity: Option<ClientIdentity>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let trusted = Verifier::new_with_extra_roots(authorities.to_vec(), Arc::clone(&provider))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous() // no more than the verifier is
        .with_custom_certificate_verifier(Arc::new(trusted));
    match identity {
        Some(ClientIdentity { chain, key }) => config.with_client_auth_cert(chain, key),
        None => Ok(config.with_no_client_auth()),
    }
}

/// The certificates of a PEM bundle, which may be empty.
pub(super) fn read_authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, NetworkError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.map_err(|error| NetworkError::Authorities(innermost(&error)))?;
    if found.is_empty() && !pem.is_empty() {
        return Err(NetworkError::Authorities("there is none in it".to_owned()));
    }
    Ok(found)
}

/// A client certificate with its chain, and its key.
pub(super) struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    fn read(certificate: &ClientCertificate) -> Result<Self, pem::Error> {
        let chain = CertificateDer::pem_slice_iter(certificate.certificate.as_bytes());
        Ok(Self {
            chain: chain.collect::<Result<_, _>>()?,
            key: PrivateKeyDer::from_pem_slice(certificate.key.reveal().as_bytes())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Clock;
    use crate::outbound::egress::EgressPolicy;
    use crate::outbound::resolver::system_lookup;

    fn material(number: usize) -> Arc<TlsMaterial> {
        Arc::new(TlsMaterial {
            client_certificate: None,
            authorities: Some(number.to_string()),
        })
    }

    fn real_material() -> Arc<TlsMaterial> {
        let key = rcgen::KeyPair::generate().expect("a key");
        let parameters = rcgen::CertificateParams::new(["ca.test".to_owned()]);
        let authority = parameters.expect("parameters").self_signed(&key);
        Arc::new(TlsMaterial {
            client_certificate: None,
            authorities: Some(authority.expect("a certificate").pem()),
        })
    }

    fn shared_client() -> Client {
        let guard = Guard::new(EgressPolicy::default(), Clock::system(), system_lookup());
        client(guard, ConnectWatch::default(), &[], None).expect("a client")
    }

    #[test]
    fn the_clients_kept_are_bounded_and_the_busy_ones_stay() {
        let mut own = OwnClients::default();
        let all: Vec<_> = (0..=TLS_CLIENTS_MAX).map(material).collect();
        let client = shared_client();
        for material in &all[..TLS_CLIENTS_MAX] {
            assert!(own.find(material).is_none());
            own.keep(Arc::clone(material), client.clone());
        }
        assert!(own.find(&all[0]).is_some());
        own.keep(Arc::clone(&all[TLS_CLIENTS_MAX]), client);
        assert_eq!(own.clients.len(), TLS_CLIENTS_MAX);
        let kept = |at: usize| own.clients.contains_key(&all[at]);
        assert!(kept(0) && !kept(1) && kept(2) && kept(TLS_CLIENTS_MAX));
    }

    #[test]
    fn each_material_has_one_client() {
        let clock = Clock::system();
        let guard = Guard::new(EgressPolicy::default(), clock, system_lookup());
        let clients = HttpClients::new(guard, Vec::new()).expect("clients");
        let (one, other) = (real_material(), real_material());
        clients.find(None).expect("the shared one");
        for material in [&one, &other, &Arc::new(TlsMaterial::clone(&one))] {
            clients.find(Some(material)).expect("its own");
        }
        assert_eq!(clients.own.lock().unwrap().clients.len(), 2);
    }
}
