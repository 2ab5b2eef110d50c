package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// healthWithin is how long a node may take to say how it is, and count as alive.
const healthTime = 5 * time.Second

// healthy answers whoever would start a node again that hangs (/healthz): 200 as long as it
// answers at all. What is wrong around it, with its disk or its network, a new start does
// not mend.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.statusWithin(r.Context()); err != nil {
		return writeUnhealthy(w, err.Error())
	}
	return writeUnhealthy(w)
}

// ready answers whoever would send readers to a node (/readyz): 200 if it is in its network
// and can keep what it is told, else 503 and what is wrong. A node that is cut off from its network serves
// what it has and what it finds itself, so it is ready, and so is one that its network has refused; the lines after the first
// say so.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	status, err := s.statusWithin(r.Context())
	switch {
	case err != nil:
		return writeUnhealthy(w, err.Error())
	case status.State == StateCutOff, status.State == StateRefused:
		return writeHealthy(w, append([]string{status.State}, status.Warnings...)...)
	case status.State != StateOK:
		return writeUnhealthy(w, append([]string{status.State}, status.Warnings...)...)
	}
	return writeUnhealthy(w)
}

func (s *Server) statusWithin(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	return s.subs.Status(ctx)
}

// sayHealth says what is wrong, or that nothing is.
func writeUnhealthy(w http.ResponseWriter, wrong ...string) error {
	if wrong == nil {
		return writeHealthy(w)
	}
	plainText(w)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintln(w, strings.Join(wrong, "\n")) // who has gone away is in no need of it
	return nil
}

// sayWell says that all is well, and in further lines what a person should know all the same.
func writeHealthy(w http.ResponseWriter, notes ...string) error {
	plainText(w)
	_, _ = fmt.Fprintln(w, strings.Join(append([]string{"ok"}, notes...), "\n"))
	return nil
}

func plainText(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
}

// metrics answers whoever collects them.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.config.Metrics == nil {
		return refuse(http.StatusNotFound, "not found")
	}
	s.config.Metrics.ServeHTTP(w, r)
	return nil
}
