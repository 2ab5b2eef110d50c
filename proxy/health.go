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
		return writeUnhealthy(w, err.Error())
	}
	return writeUnhealthy(w)
}

// readyz answers /readyz for load balancers: 200 if the node is in its network and can store data, else 503 with
// the reasons. A node that is cut off from its network is ready, because it serves what it has and what it finds
// itself. So is a node that its network has refused. Further lines of the answer say so.
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

// writeUnhealthy answers with the problems, or with "ok" if there are none.
func writeUnhealthy(w http.ResponseWriter, problems ...string) error {
	if problems == nil {
		return writeHealthy(w)
	}
	plainText(w)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintln(w, strings.Join(problems, "\n")) // an error means that the client has disconnected
	return nil
}

// writeHealthy answers "ok", followed by notes for people.
func writeHealthy(w http.ResponseWriter, notes ...string) error {
	plainText(w)
	_, _ = fmt.Fprintln(w, strings.Join(append([]string{"ok"}, notes...), "\n"))
	return nil
}

func plainText(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
}

// metrics answers /metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.config.Metrics == nil {
		return refuse(http.StatusNotFound, "not found")
	}
	s.config.Metrics.ServeHTTP(w, r)
	return nil
}
