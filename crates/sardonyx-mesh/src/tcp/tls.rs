//! TLS 1.3 between members: both sides show a certificate of the cluster's own authority, and a
//! certificate is good for the host that it names and for no other.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::verify_server_name,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
    server::{ParsedCertificate, WebPkiClientVerifier},
    version::TLS13,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{address::Address, net::Met};

/// This node's certificate, its key, and the authority whose certificates are believed. All clones are
/// one, so that renewed files count everywhere.
#[derive(Clone)]
pub struct Tls {
    files: Arc<Files>,
    ends: Arc<RwLock<Ends>>,
}

struct Files {
    authority: PathBuf,
    chain: PathBuf,
    key: PathBuf,
}

/// What the files said when they were last read.
#[derive(Clone)]
struct Ends {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

impl Tls {
    /// From PEM files: the authority's certificates, this node's chain, and its private key.
    pub fn read(authority: &Path, chain: &Path, key: &Path) -> io::Result<Tls> {
        let [authority, chain, key] = [authority, chain, key].map(Path::to_owned);
        let files = Files { authority, chain, key };
        let ends = Arc::new(RwLock::new(files.read()?));
        Ok(Tls { files: Arc::new(files), ends })
    }

    /// Reads the files again. Connections that are there go on; whoever connects from now on sees
    /// what is in them now. If they cannot be used, nothing changes.
    pub fn renew(&self) -> io::Result<()> {
        let ends = self.files.read()?;
        *self.ends.write().unwrap_or_else(PoisonError::into_inner) = ends;
        Ok(())
    }

    fn ends(&self) -> Ends {
        self.ends.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows our certificate and checks that the other's is for `to`.
    pub(crate) async fn connect(&self, stream: TcpStream, to: &Address) -> io::Result<Met> {
        let stream = self.ends().connector.connect(server_name(to)?, stream).await?;
        Ok(Met { stream: Box::pin(stream), certificate: Certificate::Checked })
    }

    /// Demands a certificate of our authority; for whom it is good is asked once we know who that
    /// claims to be.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Met> {
        let stream = self.ends().acceptor.accept(stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|it| it.first());
        let none = || io::Error::new(io::ErrorKind::PermissionDenied, "no certificate");
        let certificate = Certificate::Shown(shown.ok_or_else(none)?.clone().into_owned());
        Ok(Met { stream: Box::pin(stream), certificate })
    }
}

impl Files {
    fn read(&self) -> io::Result<Ends> {
        let Files { authority, chain, key } = self;
        let say = |file: &Path, why: &dyn fmt::Display| {
            io::Error::other(format!("{}: {why}", file.display()))
        };
        let certificates = |file: &Path| -> io::Result<Vec<CertificateDer<'static>>> {
            let read = CertificateDer::pem_file_iter(file).map_err(|why| say(file, &why))?;
            let all: Result<Vec<_>, _> = read.collect();
            match all.map_err(|why| say(file, &why))? {
                none if none.is_empty() => Err(say(file, &"there is no certificate in it")),
                some => Ok(some),
            }
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(authority)? {
            roots.add(root).map_err(|why| say(authority, &why))?;
        }
        let own = certificates(chain)?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| say(key, &why))?;
        Ends::new(roots, own, &secret).map_err(|why| say(chain, &why))
    }
}

impl Ends {
    fn new(
        roots: RootCertStore,
        own: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'static>,
    ) -> Result<Ends, Box<dyn std::error::Error + Send + Sync>> {
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier.build()?)
            .with_single_cert(own.clone(), key.clone_key())?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(own, key.clone_key())?;
        let (connector, acceptor) = (Arc::new(client).into(), Arc::new(server).into());
        Ok(Ends { connector, acceptor })
    }
}

/// What the other side has shown.
pub(crate) enum Certificate {
    /// There is no TLS.
    NotAsked,
    /// One that is good for the address that was dialled.
    Checked,
    /// One of our authority, for somebody.
    Shown(CertificateDer<'static>),
}

impl Certificate {
    /// Whether its owner may call itself `address`.
    pub(crate) fn is_for(&self, address: &Address) -> Result<(), String> {
        let Certificate::Shown(shown) = self else { return Ok(()) };
        let check = || {
            let name = server_name(address).map_err(|why| why.to_string())?;
            let parsed = ParsedCertificate::try_from(shown).map_err(|why| why.to_string())?;
            verify_server_name(&parsed, &name).map_err(|why| why.to_string())
        };
        check().map_err(|why| format!("its certificate is not for {}: {why}", address.host()))
    }
}

fn server_name(address: &Address) -> io::Result<ServerName<'static>> {
    ServerName::try_from(address.host().to_owned()).map_err(io::Error::other)
}
