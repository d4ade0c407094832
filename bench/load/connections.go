package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const smallBufferBytes = 4 << 10 // of a connection whose answers are small

// dialAll opens connections one after the other; what it returns beside them closes all of them.
func dialAll(ctx context.Context, broker string, count int) ([]*talk, func(), error) {
	lines := make([]*talk, 0, count)
	closed := func() {
		for _, line := range lines {
			line.close()
		}
	}
	for range count {
		line, err := dialBuffered(ctx, broker, smallBufferBytes)
		if err != nil {
			closed()
			return nil, nil, fmt.Errorf("connection %d of %d: %w", len(lines)+1, count, err)
		}
		lines = append(lines, line)
	}
	return lines, closed, nil
}

// opened opens j.connections connections one after another; each sends one request and stays open.
func opened(ctx context.Context, j job) (result, error) {
	request, answer := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrApiVersionsResponse()
	if err := released(); err != nil {
		return result{}, err
	}
	lines := make([]*talk, 0, j.connections)
	closed := func() {
		for _, line := range lines {
			line.close()
		}
	}
	took := make([]time.Duration, 0, j.connections)
	began := time.Now()
	for number := range j.connections {
		asked := time.Now()
		line, err := dialBuffered(ctx, j.broker, smallBufferBytes)
		if err != nil {
			return result{}, fmt.Errorf("connection %d of %d: %w", number+1, j.connections, err)
		}
		lines = append(lines, line)
		if err := line.call(request, answer); err != nil {
			return result{}, fmt.Errorf("connection %d of %d: %w", number+1, j.connections, err)
		}
		took = append(took, time.Since(asked))
	}
	measured := withLatencies(summary(len(took), time.Since(began)), took)
	measured.after = closed
	return measured, nil
}
