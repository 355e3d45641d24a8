"""What tests share: virtual time, scripted replicas, small builders."""
