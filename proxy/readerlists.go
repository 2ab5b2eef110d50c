package proxy

import (
	"io"
	"net/http"
	"os"
	"slices"
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
