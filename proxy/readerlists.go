package proxy

import (
	"io"
	"net/http"
	"os"
	"slices"

	"html/template"
	"rsc.io/qr"
	"strconv"
	"strings"
)

// A ReaderList is the file in which a feed reader on this machine keeps its subscriptions.
type ReaderList struct {
	Program string // such as newsboat
	Path    string
}

// foundLists returns the lists that exist. None is opened before a person asks for it.
func (s *Server) foundLists() (found []ReaderList) {
	for _, l := range s.config.ReaderLists {
		if info, err := os.Stat(l.Path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			found = append(found, l)
		}
	}
	return found
}

// importFound imports a list that was found on this machine.
func (s *Server) importFound(w http.ResponseWriter, r *http.Request, path string) error {
	at := slices.IndexFunc(s.foundLists(), func(l ReaderList) bool { return l.Path == path })
	if at < 0 {
		return refuse(http.StatusNotFound, "there is no list of a reader at %s", oneLine(path))
	}
	file, err := os.Open(path)
	if err != nil {
		return refuse(http.StatusForbidden, "the list cannot be read: %v", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	doc, err := io.ReadAll(io.LimitReader(file, maxListSize))
	if err != nil {
		return refuse(http.StatusForbidden, "the list cannot be read: %v", err)
	}
	return s.importFile(w, r, doc)
}

// quietZone is the width of the white frame that a QR code needs, in modules.
const quietZone = 4

// qrCode returns the QR code of an address as SVG, or "" if the address is too long for one.
func qrCode(address string) template.HTML {
	code, err := qr.Encode(address, qr.M)
	if err != nil {
		return ""
	}
	var b strings.Builder
	size := strconv.Itoa(code.Size + 2*quietZone)
	b.WriteString(`<svg class="qr" viewBox="0 0 ` + size + " " + size + `" role="img" aria-label="QR code of the address"><rect width="` + size + `" height="` + size + `"/><path d="`)
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			from := x
			for code.Black(x, y) {
				x++
			}
			if x > from {
				length := strconv.Itoa(x - from)
				b.WriteString("M" + strconv.Itoa(from+quietZone) + " " + strconv.Itoa(y+quietZone) + "h" + length + "v1h-" + length + "z")
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String())
}
