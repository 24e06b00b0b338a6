// Bindingloop binds pods with client-go as fast as it can and says how long that took: what a binder is measured against.
//
//	bindingloop --kubeconfig FILE --namespace NS --connections 16
//
// The first line is a JSON array of targets, {"pod", "node", "uid", "version"}. It opens its connections, prints "ready",
// waits for a second line, binds, and prints one JSON object. Bodies are protobuf, as kube-scheduler sends them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type target struct {
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	UID     string `json:"uid"`
	Version string `json:"version"`
}

type result struct {
	Seconds float64 `json:"seconds"`
	Bound   int64   `json:"bound"`
	Problem string  `json:"problem"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	namespace := flag.String("namespace", "default", "namespace of the pods")
	connections := flag.Int("connections", 16, "connections, each with one request at a time")
	flag.Parse()
	if err := run(*kubeconfig, *namespace, *connections); err != nil {
		fmt.Fprintln(os.Stderr, "bindingloop:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string, connections int) error {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the targets: %w", err)
	}
	var targets []target
	if err := json.Unmarshal(line, &targets); err != nil {
		return fmt.Errorf("the targets: %w", err)
	}
	pods, err := client(kubeconfig, connections)
	if err != nil {
		return err
	}
	if err := warm(pods, connections); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := input.ReadString('\n'); err != nil {
		return fmt.Errorf("the signal to start: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(bindAll(pods, namespace, targets, connections))
}

// client returns a client on that many HTTP/1.1 connections. One HTTP/2 connection, the default, is slower here.
func client(kubeconfig string, connections int) (*corev1.CoreV1Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	tls.NextProtos = []string{"http/1.1"}
	transport := &http.Transport{TLSClientConfig: tls, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	authenticated, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}
	return corev1.NewForConfigAndClient(config, &http.Client{Transport: authenticated})
}

// warm opens every connection, so that no handshake is measured.
func warm(pods *corev1.CoreV1Client, connections int) error {
	var group sync.WaitGroup
	var failure atomic.Value
	for range connections {
		group.Go(func() {
			if _, err := pods.Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); err != nil {
				failure.Store(err)
			}
		})
	}
	group.Wait()
	if err, ok := failure.Load().(error); ok {
		return err
	}
	return nil
}

func bindAll(pods *corev1.CoreV1Client, namespace string, targets []target, workers int) result {
	var next, bound atomic.Int64
	var problem atomic.Value
	var group sync.WaitGroup
	api := pods.Pods(namespace)
	began := time.Now()
	for range workers {
		group.Go(func() {
			for {
				index := int(next.Add(1)) - 1
				if index >= len(targets) {
					return
				}
				if err := api.Bind(context.Background(), binding(namespace, targets[index]), metav1.CreateOptions{}); err != nil {
					problem.Store(err.Error())
					continue
				}
				bound.Add(1)
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	text, _ := problem.Load().(string)
	return result{Seconds: took, Bound: bound.Load(), Problem: text}
}

func binding(namespace string, one target) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace,
			Name:            one.Pod,
			UID:             types.UID(one.UID),
			ResourceVersion: one.Version,
			Annotations:     map[string]string{"phalanx.dev/transaction": "01J9ZK3N7M0Q4T6V8W2X5Y1Z3A"},
		},
		Target: v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: one.Node},
	}
}
