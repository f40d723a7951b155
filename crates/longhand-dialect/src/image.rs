//! The size of a picture, read from its first bytes.

/// Reads width and height from base64 data: PNG, GIF, WebP or JPEG.
pub(crate) fn pixels(base64: &str) -> Option<(u32, u32)> {
    let data = decode(base64, 64 * 1024);
    let be16 =
        |at: usize| Some(u32::from(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?)));
    let le16 =
        |at: usize| Some(u32::from(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?)));
    if data.starts_with(b"\x89PNG\r\n\x1a\n") {
        let be32 = |at: usize| Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?));
        return Some((be32(16)?, be32(20)?));
    }
    if data.starts_with(b"GIF8") {
        return Some((le16(6)?, le16(8)?));
    }
    if data.starts_with(b"RIFF") && data.get(8..12)? == b"WEBP" {
        let le24 = |at: usize| Some(le16(at)? | u32::from(*data.get(at + 2)?) << 16);
        return match data.get(12..16)? {
            b"VP8X" => Some((le24(24)? + 1, le24(27)? + 1)),
            b"VP8 " => Some((le16(26)? & 0x3fff, le16(28)? & 0x3fff)),
            b"VP8L" => {
                let bits = le16(21)? | le16(23)? << 16;
                Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
            }
            _ => None,
        };
    }
    if data.starts_with(b"\xff\xd8") {
        let mut at = 2;
        // Walk the segments up to the frame header.
        while *data.get(at)? == 0xff {
            let marker = *data.get(at + 1)?;
            if (0xc0..=0xcf).contains(&marker) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
                return Some((be16(at + 7)?, be16(at + 5)?));
            }
            at += 2 + be16(at + 2)? as usize;
        }
    }
    None
}

/// Decodes at most `most` bytes, up to the first character that is not base64.
pub(crate) fn decode(base64: &str, most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for byte in base64.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            if out.len() >= most {
                break;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::pixels;

    #[test]
    fn sizes_are_read_from_the_header() {
        let png =
            "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEklEQVR4nGP4z8DAwMDAAAEMABn/Af8=";
        assert_eq!(pixels(png), Some((2, 3)));
        assert_eq!(pixels("R0lGODlhAQACAIAAAAAAAP///ywAAAAAAQACAAACAkQKADs="), Some((1, 2)));
        assert_eq!(pixels("/9j/4AAQSkZJRgABAQAAAQABAAD/wAARCAAQACADASIAAhEBAxEB"), Some((32, 16)));
        for bad in ["", "!!", "iVBORw0KGgo=", "/9j/", "UklGRg=="] {
            assert_eq!(pixels(bad), None, "{bad}");
        }
    }
}
