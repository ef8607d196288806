"""Reports as documents: sections, charts, HTML, Markdown and PDF."""
