package proxy

import (
	"html/template"
	"strconv"
	"strings"

	"rsc.io/qr"
)

// quietZone is the width of the white frame that a QR code needs, in modules.
const quietZone = 4

// qrCode returns the QR code of an address as SVG with a label, or "" if the address is too long for one.
func qrCode(address, label string) template.HTML {
	code, err := qr.Encode(address, qr.M)
	if err != nil {
		return ""
	}
	var b strings.Builder
	size := strconv.Itoa(code.Size + 2*quietZone)
	b.WriteString(`<svg class="qr" viewBox="0 0 ` + size + " " + size + `" role="img" aria-label="` + template.HTMLEscapeString(label) + `"><rect width="` + size + `" height="` + size + `"/><path d="`)
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
