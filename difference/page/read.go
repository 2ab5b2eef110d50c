package page

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	htmlcharset "golang.org/x/net/html/charset"

	"tidings/internal/charset"
)

// MaxDocument is the maximum size of a document in bytes, before and after conversion to UTF-8.
const MaxDocument = 16 << 20

// ErrKind says that a document has no lines of text: it is a picture or a program.
var ErrKind = errors.New("not a page with text")

// ErrLarge says that a document is larger than MaxDocument.
var ErrLarge = errors.New("too large")

// Read returns the core of a document, by its content type or, if that says nothing, by its first bytes. It
// reads HTML, plain text, JSON and XML. Relative links that lead elsewhere than from the requested address are
// made absolute.
func Read(doc []byte, contentType string, at Location) (Core, error) {
	if len(doc) > MaxDocument {
		return Core{}, fmt.Errorf("read page: %w: %d bytes, more than %d", ErrLarge, len(doc), MaxDocument)
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" || media == "application/octet-stream" || media == "text/plain" {
		media = detectMedia(doc, media)
	}
	read, names := parserFor(media, &at), []string{params["charset"]}
	if read == nil {
		return Core{}, fmt.Errorf("read page: %w: it is %s", ErrKind, media)
	}
	head := doc[:min(len(doc), 1024)]
	_, guess, _ := htmlcharset.DetermineEncoding(head, "") // from a <meta>, if there is one
	names = append(names, prolog(head), guess)
	text, _, err := charset.UTF8(doc, MaxDocument, names...)
	switch {
	case errors.Is(err, charset.ErrUnknown):
		text = doc // invalid UTF-8 stays visible, and the rest can be read
	case errors.Is(err, charset.ErrLarge):
		return Core{}, fmt.Errorf("read page: %w: more than %d bytes in UTF-8", ErrLarge, MaxDocument)
	case err != nil:
		return Core{}, fmt.Errorf("read page: %w", err)
	}
	if isBinary(text) {
		return Core{}, fmt.Errorf("read page: %w: it is %s, and called %s", ErrKind, detectMedia(doc, ""), media)
	}
	core, err := read(text)
	if err != nil {
		return Core{}, fmt.Errorf("read page: %w", err)
	}
	return core, nil
}

// parserFor returns the parser for a media type, or nil.
func parserFor(media string, at *Location) func(doc []byte) (Core, error) {
	var read func(doc []byte) Core
	switch {
	case media == "text/html", media == "application/xhtml+xml":
		return func(doc []byte) (Core, error) { return coreOf(doc, media != "text/html", at) }
	case media == "application/json", strings.HasSuffix(media, "+json"):
		read = JSON
	case media == "text/xml", media == "application/xml", strings.HasSuffix(media, "+xml") && media != "image/svg+xml":
		read = XML
	case strings.HasPrefix(media, "text/"):
		read = Text
	default:
		return nil
	}
	return func(doc []byte) (Core, error) {
		if at.What.Select != nil || at.What.Omit != nil || at.What.Number != nil {
			return Core{}, fmt.Errorf("%w: the document is %s, and selectors are for HTML: subscribe to the address without %s", ErrNothing, media, at.What.String())
		}
		return read(doc), nil
	}
}

// detectMedia returns the media type by the first bytes of a document. said is the origin's type, if that is
// one that servers use for unknown documents.
func detectMedia(doc []byte, stated string) string {
	seen := mimetype.Detect(doc[:min(len(doc), detectBytes)])
	text := seen
	for text != nil && !text.Is("text/plain") {
		text = text.Parent()
	}
	if stated == "text/plain" && (text != nil || !isBinary(doc)) { // "MZ" begins programs, and also sentences
		return stated
	}
	media, _, _ := strings.Cut(seen.String(), ";")
	return media
}

// detectBytes is how much of a document is used to detect its type, in bytes.
const detectBytes = 4096

// maxControlShare is the number of bytes of text per control character that text has at least. In pictures and
// archives one byte in ten is a control character, and text has a few.
const maxControlShare = 32

// isBinary reports whether a document in UTF-8 is not text, whatever its type says.
func isBinary(doc []byte) bool {
	head, n := doc[:min(len(doc), detectBytes)], 0
	for _, c := range head {
		if c < ' ' && !('\t' <= c && c <= '\r' || c == 0x1b) {
			n++
		}
	}
	return n > 1 && n*maxControlShare > len(head) || bytes.HasPrefix(head, []byte("%PDF-")) // may begin with much text
}

// prolog returns the charset that an XML declaration names.
func prolog(head []byte) string {
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return ""
	}
	head, _, _ = bytes.Cut(head, []byte("?>"))
	_, after, found := bytes.Cut(head, []byte("encoding="))
	if !found || len(after) < 2 {
		return ""
	}
	name, _, _ := bytes.Cut(after[1:], after[:1])
	return string(name)
}
