//! TLS by rustls: the trust in certificates, and one connection's records.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::unbuffered::{AppDataRecord, ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::failure::{Failure, CERTIFICATE, OWN_CERTIFICATE, TLS};

/// Trusts what the certificates of `authorities` have signed, and these certificates themselves, as OpenSSL does for a
/// server's own self-signed one. Without `authorities`, any certificate.
#[derive(Debug)]
struct Trust {
    authorities: Option<(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>)>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((verifier, known)) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        if known.iter().any(|each| each.as_ref() == end.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(end)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verifier.verify_server_cert(end, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn invalid(what: &str, error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{what}: {error}"))
}

fn certificates(pem: &[u8], what: &str) -> PyResult<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(invalid(what, "no certificate in PEM")),
        Err(error) => Err(invalid(what, error)),
    }
}

/// The configuration of all connections. No session is resumed, so that each connection has a whole handshake.
/// `authorities`: PEM; None accepts any certificate. `own`: the client's certificate and its key, in PEM. An error begins
/// with the name of curl's option.
pub fn configure(authorities: Option<&[u8]>, own: Option<(&[u8], &[u8])>) -> PyResult<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let authorities = match authorities {
        None => None,
        Some(pem) => {
            let known = certificates(pem, "cacert")?;
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(known.iter().cloned());
            let built = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
            Some((built.map_err(|error| invalid("cacert", error))?, known))
        }
    };
    let trust = Trust { authorities, algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS", error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(trust));
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
                pem::Error::NoItemsFound => invalid("key", "no key in PEM without a passphrase"),
                error => invalid("key", error),
            })?;
            let chain = certificates(certificate, "cert")?;
            builder.with_client_auth_cert(chain, key).map_err(|error| invalid("cert", error))?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

pub fn server_name(host: &str) -> PyResult<ServerName<'static>> {
    ServerName::try_from(host.to_string()).map_err(|error| invalid(host, error))
}

fn failure(error: Error) -> Failure {
    match error {
        Error::InvalidCertificate(why) => {
            let text = match &why {
                CertificateError::UnknownIssuer => "its issuer is not trusted".into(),
                // A certificate that signs itself.
                CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                    "it is self-signed, and not trusted".into()
                }
                why => why.to_string(),
            };
            Failure::new(CERTIFICATE, format!("the server's certificate: {text}"))
        }
        Error::NoCertificatesPresented => Failure::new(CERTIFICATE, "the server has no certificate"),
        Error::AlertReceived(
            alert @ (AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA),
        ) => Failure::new(OWN_CERTIFICATE, format!("the server rejects the client's certificate: {alert:?}")),
        other => Failure::new(TLS, format!("TLS: {other}")),
    }
}

/// The records of one connection.
pub struct Tls {
    session: UnbufferedClientConnection,
    /// The beginning of a record that has not arrived whole.
    pub incoming: Vec<u8>,
    /// Records to send, and how many of their bytes are sent.
    pub outgoing: Vec<u8>,
    pub sent: usize,
    /// Whether the handshake is over.
    pub ready: bool,
    /// Whether the server has ended the session.
    pub closed: bool,
}

impl Tls {
    pub fn new(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Tls, Failure> {
        let session = UnbufferedClientConnection::new(config.clone(), name).map_err(failure)?;
        Ok(Tls { session, incoming: Vec::new(), outgoing: Vec::new(), sent: 0, ready: false, closed: false })
    }

    /// Reads records, and passes on what they hold. Returns how many bytes were read; the rest is the beginning of a
    /// record.
    pub fn read(
        &mut self,
        bytes: &mut [u8],
        plain: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.session.process_tls_records(&mut bytes[at..]);
            let mut over = false;
            match state.map_err(failure)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let AppDataRecord { discard: length, payload } = record.map_err(failure)?;
                        discard += length;
                        plain(payload)?;
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let before = self.outgoing.len();
                    let mut room = 4 << 10;
                    let count = loop {
                        self.outgoing.resize(before + room, 0);
                        match data.encode(&mut self.outgoing[before..]) {
                            Ok(count) => break count,
                            Err(EncodeError::InsufficientSize(wanted)) => room = wanted.required_size,
                            Err(error) => return Err(Failure::new(TLS, format!("TLS: {error}"))),
                        }
                    };
                    self.outgoing.truncate(before + count);
                }
                // The caller sends `outgoing` before anything else.
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::BlockedHandshake => over = true,
                ConnectionState::WriteTraffic(_) => {
                    self.ready = true;
                    over = true;
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.closed = true;
                    over = true;
                }
                _ => return Err(Failure::new(TLS, "TLS: an unexpected state of the session")),
            }
            at += discard;
            if over {
                return Ok(at);
            }
        }
    }

    /// Encrypts bytes into `outgoing`.
    pub fn write(&mut self, plain: &[u8]) -> Result<(), Failure> {
        let UnbufferedStatus { state, .. } = self.session.process_tls_records(&mut []);
        let ConnectionState::WriteTraffic(mut traffic) = state.map_err(failure)? else {
            return Err(Failure::new(TLS, "TLS: the session has ended"));
        };
        let before = self.outgoing.len();
        // A record has at most 16 KiB, and about 30 bytes more than it holds.
        let mut room = plain.len() + 64 + plain.len() / 256;
        let count = loop {
            self.outgoing.resize(before + room, 0);
            match traffic.encrypt(plain, &mut self.outgoing[before..]) {
                Ok(count) => break count,
                Err(EncryptError::InsufficientSize(wanted)) => room = wanted.required_size,
                Err(error) => return Err(Failure::new(TLS, format!("TLS: {error}"))),
            }
        };
        self.outgoing.truncate(before + count);
        Ok(())
    }
}
