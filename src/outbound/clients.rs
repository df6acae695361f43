//! HTTP clients: a shared one, and one for each TLS material, so that no connection made with one client
//! certificate serves another subscription.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use reqwest::{Certificate, Client, ClientBuilder, Identity, redirect, retry};

use crate::model::credentials::TlsMaterial;
use crate::model::limits::{IN_FLIGHT_PER_SUBSCRIPTION, TLS_CLIENTS_MAX};
use crate::outbound::connect_watch::ConnectWatch;
use crate::outbound::resolver::{Guard, LOOKUP_DEADLINE};
use crate::outbound::transport::{
    CONNECT_DEADLINE, HEADER_BLOCK_MAX, IDLE_KEPT, NetworkError, USER_AGENT, innermost,
};

/// The clients of one network.
pub(super) struct Clients {
    guard: Guard,
    /// Trusted besides the system's.
    authorities: Vec<Certificate>,
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

impl Clients {
    pub(super) fn new(guard: Guard, authorities: Vec<Certificate>) -> Result<Self, NetworkError> {
        Ok(Self {
            shared: build(builder(guard.clone(), authorities.clone(), None))?,
            guard,
            authorities,
            own: Mutex::default(),
        })
    }

    /// The client for this material. Beyond [`TLS_CLIENTS_MAX`] the least recently used one is dropped.
    pub(super) fn find(&self, tls: Option<&Arc<TlsMaterial>>) -> Result<Client, NetworkError> {
        let Some(material) = tls else {
            return Ok(self.shared.clone());
        };
        if let Some(client) = self.own.lock().unwrap().find(material) {
            return Ok(client);
        }
        // Outside of the lock, since it reads the system's certificates.
        let client = self.make(material)?;
        let mut own = self.own.lock().unwrap();
        own.keep(Arc::clone(material), client.clone());
        Ok(client)
    }

    /// A new client, which must connect; `watch` measures how long that takes.
    pub(super) fn fresh(&self, watch: ConnectWatch) -> Result<Client, NetworkError> {
        let builder = builder(self.guard.clone(), self.authorities.clone(), None);
        build(builder.connector_layer(watch))
    }

    fn make(&self, material: &TlsMaterial) -> Result<Client, NetworkError> {
        let mut authorities = self.authorities.clone();
        if let Some(text) = &material.authorities {
            authorities.extend(read_authorities(text.as_bytes())?);
        }
        let identity = material.client_certificate.as_ref().map(|certificate| {
            let (chain, key) = (&certificate.certificate, certificate.key.reveal());
            let both = zeroize::Zeroizing::new(format!("{chain}\n{key}"));
            Identity::from_pem(both.as_bytes())
        });
        let identity = identity.transpose();
        let identity = identity.map_err(|error| NetworkError::Client(innermost(&error)))?;
        build(builder(self.guard.clone(), authorities, identity))
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

fn builder(
    guard: Guard,
    authorities: Vec<Certificate>,
    identity: Option<Identity>,
) -> ClientBuilder {
    let builder = Client::builder()
        .dns_resolver(guard)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .referer(false)
        .user_agent(USER_AGENT)
        .tls_certs_merge(authorities)
        // The client's timer includes the look-up.
        .connect_timeout(LOOKUP_DEADLINE + CONNECT_DEADLINE)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE_KEPT)
        .pool_max_idle_per_host(IN_FLIGHT_PER_SUBSCRIPTION)
        .http2_max_header_list_size(HEADER_BLOCK_MAX);
    match identity {
        Some(identity) => builder.identity(identity),
        None => builder,
    }
}

fn build(builder: ClientBuilder) -> Result<Client, NetworkError> {
    let built = builder.build();
    built.map_err(|error| NetworkError::Client(innermost(&error)))
}

/// The certificates of a PEM bundle, which may be empty.
pub(super) fn read_authorities(pem: &[u8]) -> Result<Vec<Certificate>, NetworkError> {
    let found = Certificate::from_pem_bundle(pem)
        .map_err(|error| NetworkError::Authorities(innermost(&error)))?;
    if found.is_empty() && !pem.is_empty() {
        return Err(NetworkError::Authorities("there is none in it".to_owned()));
    }
    Ok(found)
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

    #[test]
    fn the_clients_kept_are_bounded_and_the_busy_ones_stay() {
        let mut own = OwnClients::default();
        let all: Vec<_> = (0..=TLS_CLIENTS_MAX).map(material).collect();
        let client = Client::new();
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
        let clients = Clients::new(guard, Vec::new()).expect("clients");
        let (one, other) = (real_material(), real_material());
        clients.find(None).expect("the shared one");
        for material in [&one, &other, &Arc::new(TlsMaterial::clone(&one))] {
            clients.find(Some(material)).expect("its own");
        }
        assert_eq!(clients.own.lock().unwrap().clients.len(), 2);
    }
}
