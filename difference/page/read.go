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

// MaxDocument is the size of the largest document in bytes, as it comes and in UTF-8.
const MaxDocument = 16 << 20

// ErrKind says that a document is of a kind that has no lines: a picture, a program.
var ErrKind = errors.New("not a page with text")

// ErrLarge says that a document is larger than MaxDocument.
var ErrLarge = errors.New("too large")

// Read returns the core of a document, by what its origin says of it, and by its looks where that
// says nothing. It reads HTML, plain text, JSON and XML. Relative links that lead elsewhere than
// from the address of its place are written out.
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
	_, guess, _ := htmlcharset.DetermineEncoding(head, "") // what a <meta> says, if there is one
	names = append(names, prolog(head), guess)
	text, _, err := charset.UTF8(doc, MaxDocument, names...)
	switch {
	case errors.Is(err, charset.ErrUnknown):
		text = doc // what is no UTF-8 shows as such; the rest can be read
	case errors.Is(err, charset.ErrLarge):
		return Core{}, fmt.Errorf("read page: %w: more than %d bytes in UTF-8", ErrLarge, MaxDocument)
	case err != nil:
		return Core{}, fmt.Errorf("read page: %w", err)
	}
	if isBinary(text) {
		return Core{}, fmt.Errorf("read page: %w: it is %s, and called %s", ErrKind, detectMedia(doc, ""), media)
	}
	return read(text), nil
}

// kinds returns what reads documents of a media type; nil: nothing does.
func parserFor(media string, at *Location) func(doc []byte) Core {
	switch {
	case media == "text/html", media == "application/xhtml+xml":
		return func(doc []byte) Core { return coreOf(doc, media != "text/html", at) }
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return JSON
	case media == "text/xml", media == "application/xml", strings.HasSuffix(media, "+xml") && media != "image/svg+xml":
		return XML
	case strings.HasPrefix(media, "text/"):
		return Text
	}
	return nil
}

// looks returns what the first bytes of a document show it to be, of which its origin says
// what it says of all that it does not know.
func detectMedia(doc []byte, said string) string {
	seen := mimetype.Detect(doc[:min(len(doc), detectBytes)])
	text := seen
	for text != nil && !text.Is("text/plain") {
		text = text.Parent()
	}
	if said == "text/plain" && (text != nil || !isBinary(doc)) { // "MZ" begins programs, and sentences
		return said
	}
	media, _, _ := strings.Cut(seen.String(), ";")
	return media
}

// lookedAt is how much of a document shows of what kind it is, in bytes.
const detectBytes = 4096

// controls is how many bytes of a text come for each that only programs write: in pictures and archives
// one in ten is such, and pages of people have one here and there.
const maxControlShare = 32

// noText says whether a document in UTF-8 is no text, whatever it is called.
func isBinary(doc []byte) bool {
	head, n := doc[:min(len(doc), detectBytes)], 0
	for _, c := range head {
		if c < ' ' && !('\t' <= c && c <= '\r' || c == 0x1b) {
			n++
		}
	}
	return n > 1 && n*maxControlShare > len(head) || bytes.HasPrefix(head, []byte("%PDF-")) // which may begin with much text
}

// prolog is the charset that an XML declaration names.
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
