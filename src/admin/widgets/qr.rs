//! A text as a picture for phones.

use askama::Template;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use qrcode::render::svg;
use qrcode::{EcLevel, QrCode};

use super::part;

/// The address of the picture, which has all of it.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = "<img class=\"qr\" alt=\"QR code for your app\" width=\"220\" height=\"220\" src=\"{{ self.0 }}\">"
)]
pub(crate) struct Qr(String);

part!(Qr);

impl Qr {
    /// `None` if `text` is too long for a picture.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let picture = STANDARD.encode(code.render::<svg::Color<'_>>().build());
        Some(Self(format!("data:image/svg+xml;base64,{picture}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_corners_and_room_around() {
        let Qr(address) = Qr::new("hello").expect("a picture");
        let (_, picture) = address.split_once(',').expect("a picture");
        let picture = STANDARD.decode(picture).expect("base64");
        let picture = String::from_utf8(picture).expect("a text");
        // Of 29 modules with the room around, each is 8 wide.
        assert!(picture.contains("viewBox=\"0 0 232 232\""), "{picture}");
        assert!(picture.contains("d=\"M32 32h8v8H32"), "the corner is dark");
        assert!(picture.contains("M192 32h8"), "so is the one on the right");
        assert!(!picture.contains("M192 192h8"), "and the last one is none");
        assert!(Qr::new(&"x".repeat(5_000)).is_none());
    }
}
