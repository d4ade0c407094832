package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// lane is one connection that makes requests at a rate of its own.
type lane func(number int) error

// released says "ready" and waits for a line on standard input, so that the program that started this one can read
// the broker's CPU time just before what is measured.
func released() error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("no line to continue on standard input: %w", err)
	}
	return nil
}

// atRate lets every lane make a request at intervals, evenly spread over it, until done says so. A latency counts
// from the sending, or from when the request was due if the answer before it came too late for that.
func atRate(ctx context.Context, every time.Duration, lanes []lane, done func(number int) bool) ([]time.Duration, error) {
	took := make([][]time.Duration, len(lanes))
	failures := make([]error, len(lanes))
	began := time.Now()
	var all sync.WaitGroup
	for i, request := range lanes {
		all.Add(1)
		go func() {
			defer all.Done()
			due := began.Add(every * time.Duration(i) / time.Duration(len(lanes)))
			for number := 0; !done(number) && failures[i] == nil; number++ {
				var asked time.Time
				if asked, failures[i] = startOf(ctx, due); failures[i] != nil {
					return
				}
				failures[i] = request(number)
				took[i] = append(took[i], time.Since(asked))
				due = due.Add(every)
			}
		}()
	}
	all.Wait()
	return slices.Concat(took...), errors.Join(failures...)
}

// startOf waits until a request is due; it returns from when on its latency counts.
func startOf(ctx context.Context, due time.Time) (time.Time, error) {
	wait := time.Until(due)
	if wait <= 0 {
		return due, ctx.Err()
	}
	err := pause(ctx, wait)
	return time.Now(), err
}

// producers are connections that each append a record of j.size bytes to a partition of a topic.
func producers(ctx context.Context, j job, topic string, count int) ([]lane, func(), error) {
	batch, err := oneRecord(j)
	if err != nil {
		return nil, nil, err
	}
	lines, closed, err := dialAll(ctx, j.broker, count)
	if err != nil {
		return nil, nil, err
	}
	lanes := make([]lane, count)
	for i, line := range lines {
		answer, request := produceAnswer(), produceToOne(topic, i%j.partitions, batch)
		lanes[i] = func(int) error {
			if err := line.call(request, answer); err != nil {
				return err
			}
			return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
		}
		if err := lanes[i](0); err != nil { // What is learnt once is not counted.
			closed()
			return nil, nil, err
		}
	}
	return lanes, closed, nil
}

// steady keeps j.connections producers at a rate of one record each j.every, j.requests records each.
func steady(ctx context.Context, j job) (result, error) {
	lanes, closed, err := producers(ctx, j, j.topic, j.connections)
	if err != nil {
		return result{}, err
	}
	defer closed()
	return releasedLanes(ctx, j, lanes)
}

// releasedLanes lets lanes make j.requests requests each, from the line on standard input on.
func releasedLanes(ctx context.Context, j job, lanes []lane) (result, error) {
	if err := released(); err != nil {
		return result{}, err
	}
	began := time.Now()
	took, err := atRate(ctx, j.every, lanes, func(number int) bool { return number >= j.requests })
	return withLatencies(summary(len(took), time.Since(began)), took), err
}
