//! TLS from files.
//!
//! Invariants:
//! - Files are read anew for each configuration, so a connection uses what is there when it is
//!   made.
//! - A certificate of the server is trusted if it chains to a trusted one, or is one of those
//!   itself (as Go's verifier has it): a self-signed certificate is its own root.

use crate::error::chain;
use crate::options::Tls;
use crate::{Error, Result};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore,
    SignatureScheme,
};

/// What a new connection does its handshake with; `protocol` is named in it (ALPN).
pub(crate) fn configuration(tls: &Tls, protocol: &[u8]) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Arc::new(Verifier {
        trust: match tls.insecure_skip_verify {
            true => None,
            false => Some(Trust::new(tls.ca_file.as_deref(), &provider)?),
        },
        provider: provider.clone(),
    });
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the protocol versions", &error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut configuration = match (&tls.cert_file, &tls.key_file) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let identity = identity(cert, key, &provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        (cert, key) => {
            let name = |file: &Option<std::path::PathBuf>| match file {
                Some(file) => file.display().to_string(),
                None => String::new(),
            };
            return Err(Error::Tls {
                file: name(cert) + &name(key),
                reason: "certificate and key come together or not at all".to_owned(),
            });
        }
    };
    configuration.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(configuration))
}

/// The client's certificate with its key. Whether they belong together is checked where the
/// certificate can be read; old ones (version 1) cannot, and servers take them.
fn identity(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let signer = provider
        .key_provider
        .load_private_key(private_key(key)?)
        .map_err(|error| unusable(&key.display().to_string(), &error))?;
    let identity = CertifiedKey::new(certificates(cert)?, signer);
    match identity.keys_match() {
        Err(error @ rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(unusable(&key.display().to_string(), &error))
        }
        _ => Ok(identity),
    }
}

fn unusable(file: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    Error::Tls {
        file: file.to_owned(),
        reason: chain(error),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let name = file.display().to_string();
    let read = CertificateDer::pem_file_iter(file).map_err(|error| unusable(&name, &error))?;
    let all = read
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| unusable(&name, &error))?;
    match all.is_empty() {
        true => Err(Error::Tls {
            file: name,
            reason: "there is no certificate in it".to_owned(),
        }),
        false => Ok(all),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| unusable(&file.display().to_string(), &error))
}

/// The system's trusted certificates, read once.
fn system_roots() -> &'static [CertificateDer<'static>] {
    static ROOTS: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| rustls_native_certs::load_native_certs().certs)
}

/// What a server's certificate must chain to.
#[derive(Debug)]
struct Trust {
    trusted: Vec<CertificateDer<'static>>,
    /// `None` where nothing is trusted.
    chains: Option<Arc<WebPkiServerVerifier>>,
}

impl Trust {
    fn new(ca_file: Option<&Path>, provider: &Arc<CryptoProvider>) -> Result<Trust> {
        let name = ca_file.map_or("the system's roots".to_owned(), |f| f.display().to_string());
        let trusted = match ca_file {
            Some(file) => certificates(file)?,
            None => system_roots().to_vec(),
        };
        let mut roots = RootCertStore::empty();
        let (_, unreadable) = roots.add_parsable_certificates(trusted.iter().cloned());
        if ca_file.is_some() && unreadable > 0 {
            return Err(Error::Tls {
                file: name,
                reason: format!("{unreadable} certificates in it cannot be read"),
            });
        }
        let chains = match roots.is_empty() {
            true => None,
            false => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| unusable(&name, &error))?,
            ),
        };
        Ok(Trust { trusted, chains })
    }
}

/// Verifies servers' certificates.
#[derive(Debug)]
struct Verifier {
    /// `None` takes any certificate, as was asked for; whoever has it must still own its key.
    trust: Option<Trust>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(Trust { trusted, chains }) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let Some(chains) = chains else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        match chains.verify_server_cert(certificate, between, name, ocsp, now) {
            // Its dates were found good before its kind and its issuer were looked at.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer,
            )) if trusted.iter().any(|root| root == certificate) => {
                let parsed = ParsedCertificate::try_from(certificate)?;
                rustls::client::verify_server_name(&parsed, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
