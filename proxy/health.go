package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// healthTime is how long a node may take to report its status and still count as alive.
const healthTime = 5 * time.Second

// healthz answers /healthz for supervisors that restart a hanging node. The answer is 200 as long as the node
// answers at all. A restart does not repair a full disk or a broken network.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.statusWithin(r.Context()); err != nil {
		return writeHealth(w, http.StatusServiceUnavailable, err.Error())
	}
	return writeHealth(w, http.StatusOK, "ok")
}

// readyz answers /readyz for load balancers: 200 if the node is in its network and can store data, else 503 with
// the reasons. A node that is cut off from its network is ready, because it serves what it has and what it finds
// itself. So is a node that its network has refused. Further lines of the answer say so.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	status, err := s.statusWithin(r.Context())
	lines := []string{status.State}
	for _, warning := range status.Warnings {
		lines = append(lines, warning.String())
	}
	switch {
	case err != nil:
		return writeHealth(w, http.StatusServiceUnavailable, err.Error())
	case status.State == StateOK:
		return writeHealth(w, http.StatusOK, "ok")
	case status.State == StateCutOff, status.State == StateRefused:
		return writeHealth(w, http.StatusOK, append([]string{"ok"}, lines...)...)
	}
	return writeHealth(w, http.StatusServiceUnavailable, lines...)
}

func (s *Server) statusWithin(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	return s.subs.Status(ctx)
}

func writeHealth(w http.ResponseWriter, status int, lines ...string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, strings.Join(lines, "\n")) // an error means that the client has disconnected
	return nil
}

// metrics answers /metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.config.Metrics == nil {
		return refuse(http.StatusNotFound, "not found")
	}
	s.config.Metrics.ServeHTTP(w, r)
	return nil
}
