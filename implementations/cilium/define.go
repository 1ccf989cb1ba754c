package main

import (
	"log/slog"
	"os"

	definitions "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/client"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/tools/clientcmd"
)

// define creates Cilium's CustomResourceDefinitions with Cilium's own code. In a cluster, Cilium's operator creates them. The operator does not
// compile here, because the module proxy lacks one of its modules. The client writes JSON, because the
// embedded API server does not accept protobuf for them.
func define(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/json"
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	return definitions.CreateCustomResourceDefinitions(slog.New(slog.NewTextHandler(os.Stderr, nil)), client)
}
