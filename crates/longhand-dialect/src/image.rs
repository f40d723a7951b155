//! The size of a picture, read from its first bytes.

/// The most of a picture that is decoded: enough for the metadata that comes before a JPEG's size.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Reads width and height from base64 data: PNG, GIF, WebP or JPEG.
pub(crate) fn pixels(base64: &str) -> Option<(u32, u32)> {
    let size = imagesize::blob_size(&decode(base64, HEADER_BYTES_MAX)).ok()?;
    Some((u32::try_from(size.width).ok()?, u32::try_from(size.height).ok()?))
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
