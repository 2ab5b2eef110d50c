package proxy

import (
	"net/http"
	"net/url"
)

// siteIconPath is the address of the icon of a subscription's site.
const siteIconPath = "/site-icon"

// siteIcon sends the icon of the site of a subscription.
func (s *Server) siteIcon(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	var body []byte
	kind, ok := "", false
	if s.config.Icon != nil {
		body, kind, ok = s.config.Icon(r.Context(), r.URL.Query().Get("url"))
	}
	if !ok {
		h.Set("Cache-Control", "private, max-age=60") // it may just be on its way
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	h.Set("Cache-Control", "private, max-age=86400")
	h.Set("Content-Type", kind)
	_, _ = w.Write(body) // an error means that the browser has disconnected
	return nil
}

// siteIconOf returns the address of the icon of a subscription's site; "" if pages show none.
func (p *pages) siteIconOf(c channelView) string {
	if !p.siteIcons || c.Private || c.Quiet {
		return ""
	}
	return siteIconPath + "?url=" + url.QueryEscape(c.URL)
}
