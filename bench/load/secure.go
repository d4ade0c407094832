package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

// authority is the file with the certificate that brokers' certificates are checked by; without it, no TLS is spoken.
const authority = "LOAD_CA"

// secured is how this program connects to brokers with TLS; nil without it.
func secured() (*tls.Config, error) {
	path := os.Getenv(authority)
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", path)
	}
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}, nil
}

// newClient is kgo.NewClient, with TLS if there is an authority.
func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	config, err := secured()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	return kgo.NewClient(options...)
}

// connect opens one connection.
func connect(ctx context.Context, broker string) (net.Conn, error) {
	config, err := secured()
	if err != nil {
		return nil, err
	}
	if config != nil {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", broker)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", broker)
}
