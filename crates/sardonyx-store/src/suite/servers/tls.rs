//! Certificates for a test: an authority, a server's and a client's, as files.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// Files with certificates and keys, as PEM.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Whom to trust.
    pub ca: PathBuf,
    /// The server's certificate, for 127.0.0.1, and its key.
    pub server: (PathBuf, PathBuf),
    /// A client's certificate and its key.
    pub client: (PathBuf, PathBuf),
}

impl Certificates {
    /// Makes them in `dir`.
    pub fn make(dir: &Path) -> Certificates {
        let key = || KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, key()).expect("an authority");
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let issue = |name: &str| {
            let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
            let (params, key) = (CertificateParams::new(names).expect("parameters"), key());
            let cert = params.signed_by(&key, &authority).expect("a certificate");
            let cert = write(&format!("{name}.pem"), &cert.pem());
            (cert, write(&format!("{name}.key"), &key.serialize_pem()))
        };
        let ca = write("ca.pem", &authority.pem());
        Certificates { ca, server: issue("server"), client: issue("client") }
    }

    /// As options of a URL.
    pub fn options(&self) -> String {
        let (ca, (cert, key)) = (self.ca.display(), &self.client);
        format!("?ca={ca}&cert={}&key={}", cert.display(), key.display())
    }
}
