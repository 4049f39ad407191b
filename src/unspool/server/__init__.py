"""HTTP and WebSocket around the runtime: trained models as a service, without torch."""
